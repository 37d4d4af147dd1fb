"""Servers that take every message, keep none and say yes: the ceiling of each client."""
