"""Share groups for HTTP clients: messages taken for them, and what they say became of them."""
