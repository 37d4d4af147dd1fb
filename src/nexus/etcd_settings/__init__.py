"""Settings that live in etcd: one key holds the YAML document of all parts, and is followed."""
