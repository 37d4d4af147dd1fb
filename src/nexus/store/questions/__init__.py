"""The questions of the port as statements, the same for every store that gives them rows."""
