"""A group's state: its members, their votes, its generation. It knows no time and no effects.

It keeps its own books straight (leader, static ids, who supports what, who waits); the rules that
move it from state to state are in `rebalance` and `membership`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from nexus.groups.member import Member
from nexus.groups.offset_table import OffsetTable
from nexus.groups.reader import subscribed_topics
from nexus.groups.records import GroupValue, MemberValue
from nexus.groups.requests import MemberProtocol
from nexus.wire.errors import ErrorCode, MalformedMessage

CONSUMER = "consumer"
_GENERATION_MAX = 2**31 - 1


class GroupState(Enum):
    """Where a group stands; the values are the protocol's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Group:
    """The members and the generation of one group, and its committed offsets."""

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        # Member ids that were handed out and not yet used.
        self.pending: set[str] = set()
        self.pending_sync: set[str] = set()
        self.awaiting_joins = 0
        # Topics of the current generation; None while unknown, which counts as every topic.
        self.subscribed: frozenset[str] | None = None
        self.offsets = OffsetTable()
        self.recorded = False
        self.assigning = False
        # While an empty group gathers its first members: how much longer it may.
        self.initial_wait_left_ms: int | None = None
        self.newcomers = False
        # What all members' protocols hold together.
        self.metadata_bytes = 0
        self._support: Counter[str] = Counter()

    def move(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_ms = now_ms

    # -- members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self._count_support(member.protocols, 1)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member, which must no longer wait for anything."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count_support(member.protocols, -1)
        self.pending_sync.discard(member_id)
        if member.group_instance_id is not None:
            self.static_ids.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_id(self, member: Member, new_id: str) -> None:
        """A static member came back: it goes on under a new id, leading if it led."""
        old_id = member.member_id
        self.members[new_id] = self.members.pop(old_id)
        member.member_id = new_id
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.discard(old_id)
            self.pending_sync.add(new_id)

    def set_protocols(self, member: Member, protocols: tuple[MemberProtocol, ...]) -> None:
        self._count_support(member.protocols, -1)
        member.protocols = protocols
        self._count_support(protocols, 1)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether these ids name a member: a static id must belong to this very member id."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID
        known = member_id in self.members
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID

    def accepts(self, member_id: str, size_max: int) -> bool:
        """Whether there is room for this member, counting those who are here to stay."""
        if self.state is GroupState.PREPARING:
            member = self.members.get(member_id)
            return (member is not None and member.awaiting_join) or self.awaiting_joins < size_max
        return member_id in self.members or len(self.members) < size_max

    @property
    def all_joined(self) -> bool:
        return self.awaiting_joins == len(self.members) and not self.pending

    @property
    def is_disposable(self) -> bool:
        """Whether nothing at all would be lost with it."""
        return self.is_bare and not self.recorded

    @property
    def is_bare(self) -> bool:
        """Whether it is empty and has no offsets, committed or on the way."""
        return self.state is GroupState.EMPTY and not self.pending and self.offsets.is_empty

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keep a leader who joined, or make the first who did the leader."""
        if self.leader is not None and self.members[self.leader].awaiting_join:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaiting_join), None)
        self.leader = joined or self.leader
        return joined is not None

    # -- protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can live with the present ones."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        size = len(self.members)
        return protocol_type == self.protocol_type and any(self._support[n] == size for n in names)

    def select_protocol(self) -> str:
        """The protocol with most votes among those that every member supports."""
        size = len(self.members)
        candidates = frozenset(name for name, count in self._support.items() if count == size)
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=votes.__getitem__)

    def next_generation(self, now_ms: int) -> None:
        self.generation = self.generation + 1 if self.generation < _GENERATION_MAX else 1
        self.pending_sync.clear()
        self.assigning = False
        if self.members:
            self.protocol = self.select_protocol()
            self.move(GroupState.COMPLETING, now_ms)
        else:
            self.protocol = None
            self.move(GroupState.EMPTY, now_ms)
        self.read_subscriptions()

    def read_subscriptions(self) -> None:
        topics: set[str] = set()
        for member in self.members.values():
            theirs = self.topics_of(member)
            if theirs is None:
                self.subscribed = None
                return
            topics |= theirs
        self.subscribed = frozenset(topics)

    def topics_of(self, member: Member) -> frozenset[str] | None:
        """What a consumer subscribes to; None if it is no consumer or cannot be understood."""
        if self.protocol_type != CONSUMER:
            return None
        try:
            return subscribed_topics(member.metadata_for(self.protocol))
        except MalformedMessage:
            return None

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed is None or topic in self.subscribed

    def _count_support(self, protocols: tuple[MemberProtocol, ...], by: int) -> None:
        self.metadata_bytes += by * sum(len(protocol.metadata) for protocol in protocols)
        for name in {protocol.name for protocol in protocols}:
            self._support[name] += by
            if not self._support[name]:
                del self._support[name]

    # -- records

    def to_value(self, assignments: dict[str, bytes]) -> GroupValue:
        """What is written about this generation, with these assignments."""
        members = tuple(
            MemberValue(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata_for(self.protocol),
                assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        )
        kind = self.protocol_type or ""
        return GroupValue(kind, self.generation, self.protocol, self.leader, self.state_ms, members)

    def restore(self, value: GroupValue) -> None:
        """Become the group that was written; it is stable when it has members."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.recorded = True
        for stored in value.members:
            self.add(_member_of(stored, value.protocol or ""), value.protocol_type)
        if value.leader in self.members:
            self.leader = value.leader
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.state_ms = value.state_ms
        self.read_subscriptions()


def _member_of(stored: MemberValue, protocol: str) -> Member:
    return Member(
        stored.member_id,
        stored.group_instance_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        (MemberProtocol(protocol, stored.subscription),),
        stored.assignment,
    )
