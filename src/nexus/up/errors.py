"""What keeps `nexus up` from starting."""

from __future__ import annotations

from nexus.errors import NexusError


class UpError(NexusError):
    """Raised when the parts cannot be started as asked."""


class PortTaken(UpError):
    """Raised when a port that a part needs belongs to somebody else."""


class AlreadyUp(UpError):
    """Raised when another `nexus up` has the data directory."""


class NoEtcd(UpError):
    """Raised when an etcd is to be started and there is none to start."""
