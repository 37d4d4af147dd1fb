"""The query port over Delta tables: files are chosen by the log, and read by DuckDB."""
