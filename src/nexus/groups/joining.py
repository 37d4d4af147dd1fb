"""JoinGroup: who may come in, under which id, and whether the others must make room.

New members get an id first (when their client can take it), static members get back what they had,
known members rejoin; each either waits for the next generation or is told the present one.
"""

from __future__ import annotations

from dataclasses import replace

from nexus.groups.context import Context, Deadline, told_to_clients
from nexus.groups.group import Group, GroupState
from nexus.groups.member import Member, rebalance_timeout_of
from nexus.groups.rebalance import Rebalance
from nexus.groups.requests import JoinRequest
from nexus.groups.results import JoinResult, SyncResult
from nexus.wire.errors import ErrorCode

# A member id is made of the client's name and a unique part; a long name is cut.
_ID_PREFIX_CHARS = 128
_CLIENT_CHARS_MAX = 1_024


class Joining:
    """The rules of JoinGroup for a group that exists."""

    def __init__(self, context: Context, rebalance: Rebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def check(self, request: JoinRequest) -> ErrorCode:
        """What is wrong with a request whatever the group."""
        config = self._context.config
        low, high = config.session_timeout_min_ms, config.session_timeout_max_ms
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = [protocol.name for protocol in request.protocols]
        names += [request.protocol_type, request.group_instance_id or ""]
        if any(len(name.encode()) > config.name_bytes_max for name in names):
            return ErrorCode.INVALID_REQUEST
        if _size(request) > config.member_metadata_bytes_max:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def join(self, group: Group, token: object, request: JoinRequest, now_ms: int) -> None:
        error = self._refusal(group, request)
        if error is not ErrorCode.NONE:
            self._context.reply(token, JoinResult(error, request.member_id))
        elif request.member_id == "":
            self._join_new(group, token, request, now_ms)
        else:
            self._join_known(group, token, request, now_ms)
        self._rebalance.try_complete(group, now_ms)

    def _refusal(self, group: Group, request: JoinRequest) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # A static member that restarts takes its own place.
        place = request.member_id or group.static_ids.get(request.group_instance_id or "", "")
        if not group.accepts(place, self._context.config.group_size_max):
            self._turn_away(group, request.member_id)
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if group.metadata_bytes + _size(request) > self._context.config.group_metadata_bytes_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not group.supports(request.protocol_type, (p.name for p in request.protocols)):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _turn_away(self, group: Group, member_id: str) -> None:
        """A full group does not keep the place of one who came too late."""
        member = group.members.get(member_id)
        if member is not None:
            self._rebalance.forget_member(group, member)

    # -- without a member id

    def _join_new(self, group: Group, token: object, request: JoinRequest, now_ms: int) -> None:
        instance_id = request.group_instance_id
        if instance_id is not None and instance_id in group.static_ids:
            member = group.members[group.static_ids[instance_id]]
            self._replace_static(group, member, token, request, now_ms)
        elif instance_id is None and request.member_id_required:
            self._hand_out_id(group, token, request, now_ms)
        else:
            self._add(group, self._new_member_id(request), token, request, now_ms)

    def _hand_out_id(self, group: Group, token: object, request: JoinRequest, now_ms: int) -> None:
        if len(group.pending) >= self._context.config.group_size_max:
            self._context.reply(token, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        member_id = self._new_member_id(request)
        group.pending.add(member_id)
        due = now_ms + request.session_timeout_ms
        self._context.timers.schedule((Deadline.PENDING, group.group_id, member_id), due)
        self._context.reply(token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _new_member_id(self, request: JoinRequest) -> str:
        name = request.group_instance_id or request.client_id
        return f"{name[:_ID_PREFIX_CHARS]}-{self._context.new_id()}"

    def _add(
        self, group: Group, member_id: str, token: object, request: JoinRequest, now_ms: int
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id[:_CLIENT_CHARS_MAX],
            request.client_host[:_CLIENT_CHARS_MAX],
            rebalance_timeout_of(request),
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
        )
        self._context.timers.cancel((Deadline.PENDING, group.group_id, member_id))
        group.add(member, request.protocol_type)
        group.newcomers = True
        due = now_ms + self._context.config.new_member_timeout_ms
        self._context.timers.schedule((Deadline.SESSION, group.group_id, member_id), due)
        self._rebalance.park_join(group, member, token)
        self._rebalance.prepare(group, now_ms)

    def _replace_static(
        self, group: Group, member: Member, token: object, request: JoinRequest, now_ms: int
    ) -> None:
        """A static member restarted: whoever still acts under its old id is fenced."""
        old_leader = group.leader or ""
        topics = group.topics_of(member)
        self._fence(group, member)
        group.replace_id(member, self._new_member_id(request))
        self._update(group, member, request)
        self._rebalance.park_join(group, member, token)
        same = group.select_protocol() == group.protocol and group.topics_of(member) == topics
        if group.state is GroupState.STABLE and same:
            self._welcome_back(group, member, old_leader, request)
        else:
            # While completing, the leader may have assigned to the old id: all start over.
            self._rebalance.prepare(group, now_ms)

    def _fence(self, group: Group, member: Member) -> None:
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._rebalance.release_join(group, member, JoinResult(fenced, member.member_id))
        self._rebalance.release_sync(member, SyncResult(fenced))
        self._context.timers.cancel((Deadline.SESSION, group.group_id, member.member_id))

    def _welcome_back(
        self, group: Group, member: Member, old_leader: str, request: JoinRequest
    ) -> None:
        """It keeps generation and assignment; its new id must be durable before it is told."""
        generation, member_id = group.generation, member.member_id

        def then(error: ErrorCode, now_ms: int) -> None:
            moved_on = group.state is not GroupState.STABLE or group.generation != generation
            if moved_on or member.member_id != member_id:
                return  # the rebalance, or its next replacement, answers
            if error is ErrorCode.NONE:
                result = self._present(group, member, old_leader, request.skip_assignment)
            else:
                told = told_to_clients(error, ErrorCode.UNKNOWN_SERVER_ERROR)
                result = JoinResult(told, "")
            self._rebalance.answer_join(group, member, result, now_ms)

        assignments = {m.member_id: m.assignment for m in group.members.values()}
        self._rebalance.store_group(group, assignments, then)

    def _present(self, group: Group, member: Member, old_leader: str, may_skip: bool) -> JoinResult:
        result = self._rebalance.joined(group, member)
        if may_skip:
            return replace(result, skip_assignment=group.leader == member.member_id)
        # An older leader that saw itself lead would assign anew, and a stable group would not
        # take it: the old leader's id keeps it from trying.
        return replace(result, leader=old_leader, members=())

    # -- with a member id

    def _join_known(self, group: Group, token: object, request: JoinRequest, now_ms: int) -> None:
        if request.member_id in group.pending and request.group_instance_id is None:
            self._add(group, request.member_id, token, request, now_ms)
            return
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            self._context.reply(token, JoinResult(error, request.member_id))
            return
        member = group.members[request.member_id]
        if self._may_stay(group, member, request):
            self._tell_present(group, member, token, now_ms)
        else:
            self._update(group, member, request)
            self._rebalance.park_join(group, member, token)
            self._rebalance.prepare(group, now_ms)

    def _may_stay(self, group: Group, member: Member, request: JoinRequest) -> bool:
        """Whether a rejoin changes nothing: it probably missed the answer to its first."""
        if not member.matches(request.protocols) or member.awaiting_join:
            return False
        if group.state is GroupState.COMPLETING:
            return True
        # A stable group's leader rejoins because it wants a rebalance.
        return group.state is GroupState.STABLE and group.leader != member.member_id

    def _tell_present(self, group: Group, member: Member, token: object, now_ms: int) -> None:
        self._context.reply(token, self._rebalance.joined(group, member))
        if not member.awaiting_sync:
            self._rebalance.expect_heartbeat(group, member, now_ms)

    def _update(self, group: Group, member: Member, request: JoinRequest) -> None:
        group.set_protocols(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_of(request)


def _size(request: JoinRequest) -> int:
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
