"""`nexus doctor`: looks at this machine and at what runs, and says what is in the way."""
