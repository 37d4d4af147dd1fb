"""What clients ask of a group coordinator, as plain values free of wire versions.

A difference between versions that changes the outcome is a flag here; the broker's handlers set it.
"""

from __future__ import annotations

from dataclasses import dataclass

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MemberProtocol:
    """An assignor that a member offers, with the member's metadata for it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A member wants in, or wants to go on, in the next generation."""

    group_id: str
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    """Not positive (version 0 has none): the session timeout stands in."""
    member_id_required: bool = False
    """Version 4 and later: a new dynamic member must come back with the id it is handed."""
    skip_assignment: bool = False
    """Version 9 and later: a static leader that returns may be told that it leads."""


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A member asks for its assignment; the leader's request carries everyone's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A member says that it is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """Who leaves: by member id, or by instance id alone when an administrator removes it."""

    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """One or several members leave a group."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """A position to remember for one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Positions to remember; generation -1 without a member is a commit outside of membership."""

    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = -1
    """Versions 2 to 4: how long to keep these offsets; -1 for the coordinator's own rule."""


@dataclass(frozen=True, slots=True)
class FetchOffsetsRequest:
    """Which committed positions to tell; None asks for all that the group has."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeleteOffsetsRequest:
    """Committed positions to forget."""

    group_id: str
    partitions: tuple[TopicPartition, ...]
