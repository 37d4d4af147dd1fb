"""What can stop a streamer."""

from nexus.errors import NexusError


class StreamerError(NexusError):
    """Raised when the streamer cannot do what it was told."""


class StateInUse(StreamerError):
    """Raised when another streamer works on the same source with the same state."""


class StateDamaged(StreamerError):
    """Raised when a checkpoint cannot be read back."""


class SpoolFull(StreamerError):
    """Raised when the spool has no room for more."""
