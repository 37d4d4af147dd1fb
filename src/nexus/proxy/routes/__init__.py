"""One module for each family of paths; each ends with its part of the table of routes."""
