"""SyncGroup, Heartbeat, LeaveGroup, and what happens to members as time passes."""

from __future__ import annotations

from nexus.groups.context import Context, Deadline
from nexus.groups.group import Group, GroupState
from nexus.groups.member import Member
from nexus.groups.rebalance import Rebalance
from nexus.groups.requests import HeartbeatRequest, LeavingMember, SyncRequest
from nexus.groups.results import HeartbeatResult, JoinResult, LeftMember, SyncResult
from nexus.wire.errors import ErrorCode


class Membership:
    """The rules for members of a group that exists."""

    def __init__(self, context: Context, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def check_generation(
        self, group: Group, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Whether these ids name a member of the present generation."""
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = group.check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # -- sync

    def sync(self, group: Group, token: object, request: SyncRequest, now_ms: int) -> None:
        error = self._sync_refusal(group, request)
        if error is not ErrorCode.NONE:
            self._context.reply(token, SyncResult(error))
            return
        member = group.members[request.member_id]
        self._has_synced(group, member)
        if group.state is GroupState.STABLE:
            self._context.reply(token, self._rebalance.synced(group, member))
            self._rebalance.expect_heartbeat(group, member, now_ms)
            return
        self._rebalance.park_sync(member, token)
        if group.leader == member.member_id:
            self._rebalance.assign(group, dict(request.assignments))

    def _sync_refusal(self, group: Group, request: SyncRequest) -> ErrorCode:
        error = self.check_generation(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if error is not ErrorCode.NONE:
            return error
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in (None, group.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _has_synced(self, group: Group, member: Member) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._context.timers.cancel((Deadline.SYNC, group.group_id, ""))

    # -- heartbeat

    def heartbeat(
        self, group: Group, token: object, request: HeartbeatRequest, now_ms: int
    ) -> None:
        error = self.check_generation(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if error is ErrorCode.NONE:
            self.is_alive(group, group.members[request.member_id], now_ms)
            if group.state is GroupState.PREPARING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._context.reply(token, HeartbeatResult(error))

    def is_alive(self, group: Group, member: Member, now_ms: int) -> None:
        """A sign of life starts its session anew."""
        if not member.is_waiting:
            self._rebalance.expect_heartbeat(group, member, now_ms)

    # -- leave

    def leave(self, group: Group, leaving: LeavingMember, now_ms: int) -> LeftMember:
        error = self._leave(group, leaving, now_ms)
        return LeftMember(leaving.member_id, leaving.group_instance_id, error)

    def _leave(self, group: Group, leaving: LeavingMember, now_ms: int) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        member_id = leaving.member_id
        if member_id == "":
            member_id = group.static_ids.get(leaving.group_instance_id or "", "")
        elif member_id in group.pending:
            self.drop_pending(group, member_id, now_ms)
            return ErrorCode.NONE
        error = group.check_member(member_id, leaving.group_instance_id)
        if error is ErrorCode.NONE:
            self._rebalance.remove_member(group, group.members[member_id], now_ms)
        return error

    def drop_pending(self, group: Group, member_id: str, now_ms: int) -> None:
        """An id that was handed out will not be used: nobody waits for it any longer."""
        group.pending.discard(member_id)
        self._context.timers.cancel((Deadline.PENDING, group.group_id, member_id))
        self._rebalance.try_complete(group, now_ms)

    # -- time

    def session_due(self, group: Group, member_id: str, now_ms: int) -> None:
        """A session ran out; one who waits for us is not to blame, unless it never was heard."""
        member = group.members.get(member_id)
        if member is not None and (member.is_new or not member.is_waiting):
            self._rebalance.remove_member(group, member, now_ms)

    def due(self, what: Deadline, group: Group, member_id: str, now_ms: int) -> None:
        match what:
            case Deadline.SESSION:
                self.session_due(group, member_id, now_ms)
            case Deadline.PENDING:
                self.drop_pending(group, member_id, now_ms)
            case Deadline.REBALANCE:
                self._rebalance.due(group, now_ms)
            case Deadline.SYNC:
                self._rebalance.sync_due(group, now_ms)
            case Deadline.OFFSETS_CHECK:
                pass

    def release_all(self, group: Group, error: ErrorCode) -> None:
        """Answer everyone who waits: the group is served elsewhere from now on."""
        for member in group.members.values():
            self._rebalance.release_join(group, member, JoinResult(error, member.member_id))
            self._rebalance.release_sync(member, SyncResult(error))
