"""What can be wrong with what is asked of a cluster."""

from __future__ import annotations

from nexus.errors import NexusError


class ClusterError(NexusError):
    """Raised when a cluster cannot do what it is asked to."""

    exit_code = 1


class NotEnoughBrokers(ClusterError):
    """Raised when there are fewer brokers than replicas."""

    def __init__(self, replication: int, brokers: int) -> None:
        super().__init__(
            f"{replication} replicas need as many brokers, and there are {brokers}: add brokers,"
            " or ask for fewer replicas"
        )
