"""What can go wrong between a program and a proxy."""

from __future__ import annotations

from nexus.errors import NexusError


class ProxyAway(NexusError):
    """Raised when no proxy answers, or none of them can serve now; it may later."""


class ProxyRefused(NexusError):
    """Raised when a proxy refuses a request for good; sending it again would not help."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
