"""The tables as Delta Lake, committed by delta-rs: files, commits, the lock and the upkeep."""
