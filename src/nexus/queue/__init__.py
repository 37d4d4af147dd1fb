"""The queue as the pipeline sees it: a port, and an implementation for each kind of queue."""
