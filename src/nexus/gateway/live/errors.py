"""What the live stream refuses."""

from __future__ import annotations

from nexus.errors import NexusError


class LiveError(NexusError):
    """Raised when a client cannot be given a live stream."""


class TooManyClients(LiveError):
    """Raised when as many clients look on as may: 503, come back later."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"{limit} clients look on already, which is the most there may be")


class HubStopped(LiveError):
    """Raised when the gateway is stopping: 503."""
