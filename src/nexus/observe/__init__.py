"""What a running part tells its operator: metrics, logs, health, and the port to ask for them."""
