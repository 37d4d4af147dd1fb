"""Who is in a share group, and which partitions each member reads: a machine without a clock.

Nothing of it is stored. Members of a coordinator that is new to the group are told that they are
unknown, and join again; what they hold at the partitions' leaders is not touched by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nexus.groups.timers import Timers
from nexus.wire.errors import ErrorCode

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 5_000
JOIN: Final = 0
LEAVE: Final = -1
MEMBERS_MAX: Final = 5_000

PartitionsOf = Callable[[str], int]  # of a topic; 0 for one that is not there
Assigned = dict[str, tuple[int, ...]]


class Beat(NamedTuple):
    """A member says that it is there; None where nothing changed."""

    group: str
    member: str
    epoch: int
    topics: tuple[str, ...] | None
    client_id: str = ""
    client_host: str = ""


class BeatResult(NamedTuple):
    """The member's epoch, and what it is to read where that changed."""

    error: ErrorCode = ErrorCode.NONE
    epoch: int = 0
    assigned: Assigned | None = None


@dataclass(slots=True)
class ShareMember:
    """One member."""

    topics: tuple[str, ...]
    client_id: str
    client_host: str
    assigned: Assigned = field(default_factory=dict)
    told_epoch: int = 0


@dataclass(slots=True)
class ShareGroup:
    """Members by id, in the order in which they came."""

    epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # of the partitions, when assigned


class ShareGroups:
    """All share groups that are coordinated here."""

    def __init__(self) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._sessions: Timers[tuple[str, str]] = Timers()

    def beat(self, beat: Beat, partitions_of: PartitionsOf, now_ms: int) -> BeatResult:
        """A member joins, stays or leaves."""
        self.tick(now_ms)
        if not beat.group or not beat.member or beat.epoch < LEAVE:
            return BeatResult(ErrorCode.INVALID_REQUEST)
        if beat.epoch == LEAVE:
            return self._leave(beat)
        group = self.groups.get(beat.group)
        if beat.epoch == JOIN:
            refusal = self._join(beat)
        elif group is None or beat.member not in group.members:
            refusal = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            refusal = ErrorCode.FENCED_MEMBER_EPOCH if beat.epoch > group.epoch else ErrorCode.NONE
        if refusal:
            return BeatResult(refusal)
        group = self.groups[beat.group]
        self._sessions.schedule((beat.group, beat.member), now_ms + SESSION_TIMEOUT_MS)
        return self._told(group, beat, partitions_of)

    def tick(self, now_ms: int) -> None:
        """Members that were not heard of for too long are gone."""
        while (due := self._sessions.pop(now_ms)) is not None:
            self._remove(*due)

    def _join(self, beat: Beat) -> ErrorCode:
        if not beat.topics:
            return ErrorCode.INVALID_REQUEST
        group = self.groups.setdefault(beat.group, ShareGroup())
        known = group.members.get(beat.member)
        if known is None:
            if len(group.members) >= MEMBERS_MAX:
                return ErrorCode.GROUP_MAX_SIZE_REACHED
            group.members[beat.member] = ShareMember((), beat.client_id, beat.client_host)
        else:
            known.told_epoch = 0  # it begins anew and knows nothing
        return ErrorCode.NONE

    def _leave(self, beat: Beat) -> BeatResult:
        group = self.groups.get(beat.group)
        if group is None or beat.member not in group.members:
            return BeatResult(ErrorCode.UNKNOWN_MEMBER_ID)
        self._sessions.cancel((beat.group, beat.member))
        self._remove(beat.group, beat.member)
        return BeatResult(epoch=LEAVE)

    def _remove(self, group_id: str, member: str) -> None:
        group = self.groups[group_id]
        del group.members[member]
        group.counts = {}  # so that the others are given its part at their next beat
        if not group.members:
            del self.groups[group_id]

    def _told(self, group: ShareGroup, beat: Beat, partitions_of: PartitionsOf) -> BeatResult:
        member = group.members[beat.member]
        topics = member.topics if beat.topics is None else tuple(sorted(set(beat.topics)))
        is_changed = topics != member.topics
        member.topics = topics
        wanted = {topic for one in group.members.values() for topic in one.topics}
        counts = {topic: count for topic in wanted if (count := partitions_of(topic))}
        if is_changed or counts != group.counts:
            group.epoch += 1
            group.counts = counts
            _assign(group.members, counts)
        if member.told_epoch == group.epoch == beat.epoch:
            return BeatResult(epoch=group.epoch)
        member.told_epoch = group.epoch
        return BeatResult(epoch=group.epoch, assigned=member.assigned)


def _assign(members: dict[str, ShareMember], counts: dict[str, int]) -> None:
    """Give every partition to a member and every member a partition, evenly."""
    for member in members.values():
        member.assigned = {}
    for topic, count in sorted(counts.items()):
        readers = [one for one in members.values() if topic in one.topics]
        for number, reader in enumerate(readers):
            reader.assigned[topic] = tuple(_part(number, len(readers), count))


def _part(number: int, readers: int, partitions: int) -> Iterable[int]:
    if readers >= partitions:
        return [number % partitions]
    return range(number, partitions, readers)
