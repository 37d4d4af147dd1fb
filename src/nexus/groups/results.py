"""What a group coordinator answers; every result carries its error, NONE when all went well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nexus.groups.requests import TopicPartition
from nexus.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class JoinMember:
    """A member as its leader sees it, with its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The generation that a member is part of; only the leader is told the members."""

    error: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    """A member's assignment in the generation that it asked about."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """Whether the member goes on as it is."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeftMember:
    """What became of one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """What became of each leaving member; versions below 3 answer the only member's error."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitResult:
    """An error for each partition that was to be committed."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """A committed position; offset -1 when there is none."""

    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class FetchOffsetsResult:
    """The committed positions asked for; all of a group's come sorted by topic and partition."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, FetchedOffset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResult:
    """An error for the group as a whole, or else one for each partition."""

    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteGroupResult:
    """Whether the group and its offsets are gone."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member as an operator sees it; metadata and assignment are known in a stable group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as an operator sees it; one that does not exist is Dead."""

    error: ErrorCode
    group_id: str
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | CommitResult
    | DeleteOffsetsResult
    | DeleteGroupResult
)
