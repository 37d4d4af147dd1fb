"""The systems, each behind the same small interface."""
