"""How a group moves from one generation to the next.

Preparing gathers joins until everyone is in or the time is up; completing waits for the leader's
assignment, which counts, and is told, only once it is stored.
"""

from __future__ import annotations

from nexus.groups.context import Context, Deadline, Then, told_to_clients
from nexus.groups.group import Group, GroupState
from nexus.groups.member import Member
from nexus.groups.records import encode_group_key, encode_group_value
from nexus.groups.results import JoinResult, SyncResult
from nexus.wire.errors import ErrorCode

_POSTPONE_MIN_MS = 1_000


class Rebalance:
    """The transitions of a group, and the answers that they give."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- preparing

    def prepare(self, group: Group, now_ms: int) -> None:
        """Start a rebalance, unless one is already being prepared."""
        if group.state in (GroupState.PREPARING, GroupState.DEAD):
            return
        if group.state is GroupState.COMPLETING:
            self.fail_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self._context.timers.cancel((Deadline.SYNC, group.group_id, ""))
        first = group.state is GroupState.EMPTY
        group.move(GroupState.PREPARING, now_ms)
        if first:
            self._gather(group, now_ms)
        else:
            self._allow(group, group.rebalance_timeout_ms, now_ms)

    def try_complete(self, group: Group, now_ms: int) -> None:
        """End the preparation if everyone joined; an empty group's first one runs its time."""
        if (
            group.state is GroupState.PREPARING
            and group.initial_wait_left_ms is None
            and group.all_joined
        ):
            self.complete(group, now_ms)

    def due(self, group: Group, now_ms: int) -> None:
        """The preparation's time is up."""
        if group.state is not GroupState.PREPARING:
            return
        left = group.initial_wait_left_ms
        if left and group.newcomers:
            self._wait_on(group, left, now_ms)
        else:
            self.complete(group, now_ms)

    def complete(self, group: Group, now_ms: int) -> None:
        """Go on with those who joined; dynamic members who did not are out."""
        group.initial_wait_left_ms = None
        for member in [m for m in group.members.values() if not m.awaiting_join]:
            if not member.is_static:
                self.forget_member(group, member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none came back: their sessions decide.
            self._allow(group, max(group.rebalance_timeout_ms, _POSTPONE_MIN_MS), now_ms)
            return
        self._context.timers.cancel((Deadline.REBALANCE, group.group_id, ""))
        group.next_generation(now_ms)
        if group.members:
            self._announce(group, now_ms)
        else:
            self.store_group(group, {}, lambda _error, _now_ms: None)

    def _gather(self, group: Group, now_ms: int) -> None:
        delay = self._context.config.initial_rebalance_delay_ms
        if delay <= 0:
            self.complete(group, now_ms)
            return
        group.initial_wait_left_ms = max(group.rebalance_timeout_ms - delay, 0)
        group.newcomers = False
        self._allow(group, delay, now_ms)

    def _wait_on(self, group: Group, left_ms: int, now_ms: int) -> None:
        """Someone came during the delay, so more may: grant another, as long as time is left."""
        delay = min(self._context.config.initial_rebalance_delay_ms, left_ms)
        group.initial_wait_left_ms = left_ms - delay
        group.newcomers = False
        self._allow(group, delay, now_ms)

    def _allow(self, group: Group, delay_ms: int, now_ms: int) -> None:
        key = (Deadline.REBALANCE, group.group_id, "")
        self._context.timers.schedule(key, now_ms + delay_ms)

    def _announce(self, group: Group, now_ms: int) -> None:
        """Tell everyone who joined the new generation, and expect their syncs."""
        # Not of a static member that is away: its session says how long it may be.
        group.pending_sync.update(m.member_id for m in group.members.values() if m.awaiting_join)
        due = now_ms + group.rebalance_timeout_ms
        self._context.timers.schedule((Deadline.SYNC, group.group_id, ""), due)
        for member in list(group.members.values()):
            self.answer_join(group, member, self.joined(group, member), now_ms)
            member.is_new = False

    def joined(self, group: Group, member: Member) -> JoinResult:
        """The present generation, with its members if this one leads."""
        leads = group.leader == member.member_id
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or "",
            tuple(m.as_joined(group.protocol) for m in group.members.values()) if leads else (),
        )

    # -- completing

    def assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        """The leader's word: store it, then tell it. A leader's second word is not taken."""
        if group.assigning:
            return
        group.assigning = True
        generation = group.generation

        def then(error: ErrorCode, now_ms: int) -> None:
            if group.state is GroupState.COMPLETING and group.generation == generation:
                self._assigned(group, assignments, error, now_ms)

        self.store_group(group, assignments, then)

    def _assigned(
        self, group: Group, assignments: dict[str, bytes], error: ErrorCode, now_ms: int
    ) -> None:
        if error is not ErrorCode.NONE:
            told = told_to_clients(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            self.fail_assignment(group, told, now_ms)
            self.prepare(group, now_ms)
            self.try_complete(group, now_ms)
            return
        group.assigning = False
        group.move(GroupState.STABLE, now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self.answer_sync(group, member, self.synced(group, member), now_ms)

    def fail_assignment(self, group: Group, error: ErrorCode, now_ms: int) -> None:
        group.assigning = False
        for member in group.members.values():
            member.assignment = b""
            self.answer_sync(group, member, SyncResult(error), now_ms)

    def synced(self, group: Group, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)

    def sync_due(self, group: Group, now_ms: int) -> None:
        """Whoever has not synced by now is out, and the others go on without them."""
        if group.state not in (GroupState.COMPLETING, GroupState.STABLE) or not group.pending_sync:
            return
        for member in [m for m in group.members.values() if m.member_id in group.pending_sync]:
            self.forget_member(group, member)
        self.prepare(group, now_ms)
        self.try_complete(group, now_ms)

    def store_group(self, group: Group, assignments: dict[str, bytes], then: Then) -> None:
        group.recorded = True
        record = (
            encode_group_key(group.group_id),
            encode_group_value(group.to_value(assignments)),
        )
        self._context.store((record,), then)

    # -- members

    def expect_heartbeat(self, group: Group, member: Member, now_ms: int) -> None:
        key = (Deadline.SESSION, group.group_id, member.member_id)
        self._context.timers.schedule(key, now_ms + member.session_timeout_ms)

    def park_join(self, group: Group, member: Member, token: object) -> None:
        """Keep a join until its generation is known; one that it replaces is sent away."""
        if member.awaiting_join:
            result = JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self._context.reply(member.join_token, result)
        else:
            group.awaiting_joins += 1
        member.awaiting_join, member.join_token = True, token

    def park_sync(self, member: Member, token: object) -> None:
        if member.awaiting_sync:
            self._context.reply(member.sync_token, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync, member.sync_token = True, token

    def answer_join(self, group: Group, member: Member, result: JoinResult, now_ms: int) -> None:
        """Answer a member's join if it waits; from here on its heartbeats count."""
        if self.release_join(group, member, result):
            self.expect_heartbeat(group, member, now_ms)

    def release_join(self, group: Group, member: Member, result: JoinResult) -> bool:
        if not member.awaiting_join:
            return False
        self._context.reply(member.join_token, result)
        member.awaiting_join, member.join_token = False, None
        group.awaiting_joins -= 1
        return True

    def answer_sync(self, group: Group, member: Member, result: SyncResult, now_ms: int) -> None:
        if self.release_sync(member, result):
            self.expect_heartbeat(group, member, now_ms)

    def release_sync(self, member: Member, result: SyncResult) -> bool:
        if not member.awaiting_sync:
            return False
        self._context.reply(member.sync_token, result)
        member.awaiting_sync, member.sync_token = False, None
        return True

    def forget_member(self, group: Group, member: Member) -> None:
        """Take a member out; if it waits it is told that it is unknown, and may join anew."""
        self.release_join(group, member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self.release_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self._context.timers.cancel((Deadline.SESSION, group.group_id, member.member_id))
        group.remove(member.member_id)

    def remove_member(self, group: Group, member: Member, now_ms: int) -> None:
        """A member left or died: the others share what it had."""
        self.forget_member(group, member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self.prepare(group, now_ms)
        self.try_complete(group, now_ms)
