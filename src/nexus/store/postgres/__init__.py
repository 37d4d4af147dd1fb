"""A store in PostgreSQL: how it is laid out, written and asked."""
