"""The read side: one query port over the tables, and what answers it."""
