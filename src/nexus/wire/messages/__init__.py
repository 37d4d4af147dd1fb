"""The messages that are served, one module an API."""
