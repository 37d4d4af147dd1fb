"""The data pipeline on Spark: from the queue to open tables, each reading exactly once."""
