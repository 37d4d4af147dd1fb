"""A store in etcd: readings are keys that sort by GPU and time, documents say who the GPUs are."""
