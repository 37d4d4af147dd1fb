"""Which brokers hold a partition, and which of them should lead it: strategies behind one port."""
