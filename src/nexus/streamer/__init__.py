"""From a source of readings to the queue, at least once and in order within a GPU."""
