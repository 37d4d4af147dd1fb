"""What can be wrong with what is asked of a cluster."""

from __future__ import annotations

from nexus.errors import NexusError
from nexus.wire.errors import ErrorCode, ProtocolError


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


class BrokerIdTaken(ClusterError):
    """Raised when another broker lives under the same id."""

    def __init__(self, node: int, host: str, port: int) -> None:
        super().__init__(
            f"broker.id {node} is taken by the broker at {host}:{port}, which has other data;"
            " give each broker an id of its own"
        )


class CannotAgree(ProtocolError):
    """Raised when what the cluster agrees by cannot be reached, or was changed meanwhile."""

    code = ErrorCode.REQUEST_TIMED_OUT
