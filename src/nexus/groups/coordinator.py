"""The coordinator of the groups of one `__consumer_offsets` partition: requests in, effects out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from nexus.groups.config import GroupConfig
from nexus.groups.context import Context, Deadline
from nexus.groups.effects import Effects
from nexus.groups.group import Group, GroupState
from nexus.groups.joining import Joining
from nexus.groups.loading import Loader, Record
from nexus.groups.membership import Membership
from nexus.groups.offsets import Offsets, group_tombstone, refused
from nexus.groups.rebalance import Rebalance
from nexus.groups.requests import (
    CommitRequest,
    DeleteOffsetsRequest,
    FetchOffsetsRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)
from nexus.groups.results import (
    DeleteGroupResult,
    DeleteOffsetsResult,
    FetchOffsetsResult,
    GroupDescription,
    GroupListing,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    SyncResult,
)
from nexus.wire.errors import ErrorCode

_CHECK_KEY = (Deadline.OFFSETS_CHECK, "", "")


def partition_for(group_id: str, count: int) -> int:
    """Which of `count` partitions holds a group: Java's hash of the name, as on every broker."""
    units = group_id.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % count


class Coordinator:
    """Answers COORDINATOR_LOAD_IN_PROGRESS until `loaded`, and NOT_COORDINATOR after `close`.

    `new_id` makes the unique part of a member id. Every call that takes a token returns effects,
    among them, now or in a later call's, exactly one `Reply` with that token.
    """

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self._context = Context(config, new_id)
        self._loader = Loader()
        self._refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._groups: dict[str, Group] = {}
        self._rebalance = Rebalance(self._context)
        self._joining = Joining(self._context, self._rebalance)
        self._membership = Membership(self._context, self._rebalance)
        self._offsets = Offsets(self._context, self._membership)

    # -- life

    @property
    def skipped_records(self) -> int:
        """How many records could not be read while loading."""
        return self._loader.skipped

    def load(self, records: Iterable[Record]) -> None:
        """Replay records of the offsets partition in order; may be called chunk by chunk."""
        self._loader.load(records)

    def loaded(self, now_ms: int) -> Effects:
        """All records were replayed: begin to serve, with a fresh session for every member."""
        self._groups = self._loader.groups(now_ms)
        self._loader = Loader(skipped=self._loader.skipped)
        self._refusal = ErrorCode.NONE
        self._check_again(now_ms)
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalance.expect_heartbeat(group, member, now_ms)
            if len(group.members) > self._context.config.group_size_max:
                self._rebalance.prepare(group, now_ms)
        return self._context.take()

    def close(self) -> Effects:
        """The partition moves away: answer everyone who waits; later `stored` calls are ignored."""
        self._refusal = ErrorCode.NOT_COORDINATOR
        for group in self._groups.values():
            self._membership.release_all(group, self._refusal)
        self._context.abandon(self._refusal)
        self._groups.clear()
        return self._context.take()

    def stored(self, tag: int, error: ErrorCode, now_ms: int) -> Effects:
        """The records of a `Store` are durable (NONE), or could not be made so."""
        self._context.stored(tag, error, now_ms)
        return self._context.take()

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._context.timers.next_ms()

    def tick(self, now_ms: int) -> Effects:
        """Do what time brings: expire members, end rebalances, drop offsets past retention."""
        while (key := self._context.timers.pop(now_ms)) is not None:
            what, group_id, member_id = key
            group = self._groups.get(group_id)
            if what is Deadline.OFFSETS_CHECK:
                self._check_offsets(now_ms)
            elif group is not None:
                self._membership.due(what, group, member_id, now_ms)
                self._dispose(group)
        return self._context.take()

    # -- membership

    def join(self, token: object, request: JoinRequest, now_ms: int) -> Effects:
        """Answered when the generation that the member is part of is known."""
        error = self._check(request.group_id) or self._joining.check(request)
        group = None
        if not error:
            may_create = request.member_id == ""
            group, error = self._find(request.group_id, may_create, now_ms)
        if group is None:
            self._context.reply(token, JoinResult(error, request.member_id))
        else:
            self._joining.join(group, token, request, now_ms)
            self._dispose(group)
        return self._context.take()

    def sync(self, token: object, request: SyncRequest, now_ms: int) -> Effects:
        """Answered when the leader's assignment is stored."""
        error = self._check(request.group_id)
        group = self._groups.get(request.group_id)
        if error or group is None:
            self._context.reply(token, SyncResult(error or ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._membership.sync(group, token, request, now_ms)
        return self._context.take()

    def heartbeat(self, token: object, request: HeartbeatRequest, now_ms: int) -> Effects:
        """Answered at once."""
        error = self._check(request.group_id)
        group = self._groups.get(request.group_id)
        if error or group is None:
            self._context.reply(token, HeartbeatResult(error or ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._membership.heartbeat(group, token, request, now_ms)
        return self._context.take()

    def leave(self, token: object, request: LeaveRequest, now_ms: int) -> Effects:
        """Answered at once, with an error for each member."""
        error = self._check(request.group_id)
        group = self._groups.get(request.group_id)
        if error:
            result = LeaveResult(error)
        elif group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            left = (LeftMember(m.member_id, m.group_instance_id, unknown) for m in request.members)
            result = LeaveResult(ErrorCode.NONE, tuple(left))
        else:
            gone = [self._membership.leave(group, m, now_ms) for m in request.members]
            result = LeaveResult(ErrorCode.NONE, tuple(gone))
            self._dispose(group)
        self._context.reply(token, result)
        return self._context.take()

    # -- offsets

    def commit(self, token: object, request: CommitRequest, now_ms: int) -> Effects:
        """Answered when the offsets are stored, from when on they are seen."""
        error = self._check(request.group_id, may_be_blank=True)
        group = None
        if not error:
            outside = request.generation_id < 0
            group, error = self._find(request.group_id, outside, now_ms)
            if group is None and not outside:
                error = ErrorCode.ILLEGAL_GENERATION
        if group is None:
            self._context.reply(token, refused(request, error))
        else:
            self._offsets.commit(group, token, request, now_ms)
            self._dispose(group)
        return self._context.take()

    def fetch_offsets(self, request: FetchOffsetsRequest) -> FetchOffsetsResult:
        """Committed positions; a read, answered at once."""
        error = self._check(request.group_id, may_be_blank=True)
        if error:
            return FetchOffsetsResult(error)
        group = self._groups.get(request.group_id)
        return FetchOffsetsResult(error, self._offsets.fetch(group, request.partitions))

    def delete_offsets(self, token: object, request: DeleteOffsetsRequest, now_ms: int) -> Effects:
        """Answered when the offsets are gone for good."""
        error = self._check(request.group_id, may_be_blank=True)
        group = self._groups.get(request.group_id)
        if error or group is None:
            told = error or ErrorCode.GROUP_ID_NOT_FOUND
            self._context.reply(token, DeleteOffsetsResult(told))
        else:
            self._offsets.delete(group, token, request)
        return self._context.take()

    def topics_deleted(self, topics: Collection[str], now_ms: int) -> Effects:
        """Topics are gone: forget what was committed for them."""
        for group in self._groups.values():
            self._offsets.drop_topics(group, topics)
        return self._context.take()

    # -- groups

    def delete_group(self, token: object, group_id: str, now_ms: int) -> Effects:
        """Answered when the group and its offsets are gone for good."""
        error = self._check(group_id, may_be_blank=True)
        group = self._groups.get(group_id)
        if error or group is None:
            told = error or ErrorCode.GROUP_ID_NOT_FOUND
            self._context.reply(token, DeleteGroupResult(told))
        else:
            doomed = group
            self._offsets.delete_group(group, token, lambda _error, _now_ms: self._forget(doomed))
        return self._context.take()

    def list_groups(self, states: Collection[str] = ()) -> tuple[ErrorCode, list[GroupListing]]:
        """The groups of this partition, of these states if any are named (in any case)."""
        wanted = {state.lower() for state in states}
        listed = [
            GroupListing(group.group_id, group.protocol_type or "", group.state.value)
            for group in self._groups.values()
            if not wanted or group.state.value.lower() in wanted
        ]
        return self._refusal, listed

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group and its members; a read, answered at once."""
        error = self._check(group_id, may_be_blank=True)
        group = self._groups.get(group_id)
        if error or group is None:
            return GroupDescription(error, group_id)
        protocol = group.protocol if group.state is GroupState.STABLE else None
        return GroupDescription(
            ErrorCode.NONE,
            group_id,
            group.state.value,
            group.protocol_type or "",
            protocol or "",
            tuple(member.describe(protocol) for member in group.members.values()),
        )

    # -- inside

    def _check(self, group_id: str, may_be_blank: bool = False) -> ErrorCode:
        """Whether any request for this group can be served; old clients commit under no name."""
        if self._refusal is not ErrorCode.NONE:
            return self._refusal
        too_long = len(group_id.encode()) > self._context.config.group_id_bytes_max
        blank = not group_id and not may_be_blank
        return ErrorCode.INVALID_GROUP_ID if too_long or blank else ErrorCode.NONE

    def _find(self, group_id: str, may_create: bool, now_ms: int) -> tuple[Group | None, ErrorCode]:
        group = self._groups.get(group_id)
        if group is not None:
            return group, ErrorCode.NONE
        if not may_create:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        if len(self._groups) >= self._context.config.groups_max:
            return None, ErrorCode.POLICY_VIOLATION
        group = self._groups[group_id] = Group(group_id, now_ms)
        return group, ErrorCode.NONE

    def _check_offsets(self, now_ms: int) -> None:
        """Drop offsets past their retention, and groups that have nothing left."""
        self._check_again(now_ms)
        for group in list(self._groups.values()):
            self._offsets.expire(group, now_ms, partial(self._bury, group))

    def _check_again(self, now_ms: int) -> None:
        due = now_ms + self._context.config.offsets_check_interval_ms
        self._context.timers.schedule(_CHECK_KEY, due)

    def _bury(self, group: Group) -> None:
        """An empty group without offsets is over: say so in the log, then forget it."""
        if not group.is_bare:
            return
        if not group.recorded:
            self._forget(group)
            return
        group.state = GroupState.DEAD

        def then(error: ErrorCode, _now_ms: int) -> None:
            if error is ErrorCode.NONE:
                self._forget(group)
            else:
                group.state = GroupState.EMPTY

        self._context.store((group_tombstone(group),), then)

    def _dispose(self, group: Group) -> None:
        """Do not keep a group that came to nothing."""
        if group.is_disposable:
            self._forget(group)

    def _forget(self, group: Group) -> None:
        for member_id in group.pending:
            self._context.timers.cancel((Deadline.PENDING, group.group_id, member_id))
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
