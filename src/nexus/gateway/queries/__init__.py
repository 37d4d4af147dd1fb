"""What may stand behind the question mark: one model an endpoint, unknown parameters refused."""
