"""The server: connections, dispatch, and one handler module for each Kafka API."""
