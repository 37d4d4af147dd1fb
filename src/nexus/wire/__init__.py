"""Bytes to Kafka messages and back; no sockets, no files, no event loop."""
