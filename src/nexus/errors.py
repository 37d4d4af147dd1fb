"""The root of every error that Nexus raises on purpose."""


class NexusError(Exception):
    """Raised when something that a user or operator can act on went wrong."""
