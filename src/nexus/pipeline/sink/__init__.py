"""Where checked readings are stored: the port, and its implementations."""
