"""The cluster that agrees by etcd: no consensus of our own."""
