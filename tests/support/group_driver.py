"""Runs a group coordinator by hand: a clock that stands still, a log that is a list."""

from __future__ import annotations

import struct
from collections import deque
from itertools import count

from nexus.groups import (
    CommitRequest,
    CommitResult,
    Coordinator,
    Effects,
    FetchOffsetsRequest,
    GroupConfig,
    HeartbeatRequest,
    HeartbeatResult,
    JoinRequest,
    JoinResult,
    LeaveRequest,
    LeaveResult,
    LeavingMember,
    MemberProtocol,
    OffsetToCommit,
    Reply,
    Result,
    Store,
    StoredRecord,
    SyncRequest,
    SyncResult,
)
from nexus.wire.errors import ErrorCode

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0: topics, no user data."""
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Driver:
    """Carries out a coordinator's effects; stores succeed at once unless `hold_stores` is set."""

    def __init__(self, config: GroupConfig | None = None, *, load: bool = True) -> None:
        self.now_ms = 1_000_000
        self.config = config or GroupConfig()
        self.log: list[StoredRecord] = []
        self.hold_stores = False
        self.held: deque[Store] = deque()
        self.replies: dict[int, Result] = {}
        self._tokens = count(1)
        self._ids = count(1)
        self.coordinator = self._fresh()
        if load:
            self.run(self.coordinator.loaded(self.now_ms))

    def _fresh(self) -> Coordinator:
        return Coordinator(self.config, lambda: f"id{next(self._ids)}")

    def token(self) -> int:
        return next(self._tokens)

    def run(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                assert isinstance(effect.token, int)
                assert effect.token not in self.replies, "answered twice"
                self.replies[effect.token] = effect.result
            else:
                self.held.append(effect)
        if not self.hold_stores:
            self.finish_stores()

    def finish_stores(self, error: ErrorCode = ErrorCode.NONE) -> None:
        while self.held:
            self.finish_store(error)

    def finish_store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        store = self.held.popleft()
        if error is ErrorCode.NONE:
            self.log.extend(store.records)
        self.run(self.coordinator.stored(store.tag, error, self.now_ms))

    def pass_ms(self, delay_ms: int) -> None:
        """Let time pass, waking the coordinator whenever it asked for it."""
        end = self.now_ms + delay_ms
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.run(self.coordinator.tick(self.now_ms))
        self.now_ms = end

    def restart(self) -> None:
        """Another coordinator takes over from what the log holds."""
        self.run(self.coordinator.close())
        self.held.clear()
        self.coordinator = self._fresh()
        self.coordinator.load(self.log)
        self.run(self.coordinator.loaded(self.now_ms))

    # -- requests, by token

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: tuple[MemberProtocol, ...] = (MemberProtocol("range", subscription("t")),),
        kind: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        id_required: bool = False,
        skip_assignment: bool = False,
    ) -> int:
        token = self.token()
        request = JoinRequest(
            group,
            session_ms,
            kind,
            protocols,
            member_id,
            instance,
            "client",
            "/127.0.0.1",
            rebalance_ms,
            id_required,
            skip_assignment,
        )
        self.run(self.coordinator.join(token, request, self.now_ms))
        return token

    def sync(
        self,
        joined: JoinResult,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> int:
        token = self.token()
        assigned = tuple((assignments or {}).items())
        request = SyncRequest(
            group, joined.generation_id, joined.member_id, instance, kind, protocol, assigned
        )
        self.run(self.coordinator.sync(token, request, self.now_ms))
        return token

    # -- requests, by answer

    def joined(self, token: int) -> JoinResult:
        result = self.replies[token]
        assert isinstance(result, JoinResult)
        return result

    def synced(self, token: int) -> SyncResult:
        result = self.replies[token]
        assert isinstance(result, SyncResult)
        return result

    def heartbeat(
        self, joined: JoinResult, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        token = self.token()
        request = HeartbeatRequest(group, joined.generation_id, joined.member_id, instance)
        self.run(self.coordinator.heartbeat(token, request, self.now_ms))
        result = self.replies[token]
        assert isinstance(result, HeartbeatResult)
        return result.error

    def leave(self, *members: LeavingMember, group: str = GROUP) -> list[ErrorCode]:
        token = self.token()
        self.run(self.coordinator.leave(token, LeaveRequest(group, members), self.now_ms))
        result = self.replies[token]
        assert isinstance(result, LeaveResult)
        return [member.error for member in result.members]

    def send_commit(
        self,
        offset: int,
        *,
        topic: str = "t",
        joined: JoinResult | None = None,
        group: str = GROUP,
        metadata: str | None = "",
        retention_ms: int = -1,
        instance: str | None = None,
    ) -> int:
        token = self.token()
        request = CommitRequest(
            group,
            (OffsetToCommit(topic, 0, offset, 3, metadata),),
            -1 if joined is None else joined.generation_id,
            "" if joined is None else joined.member_id,
            instance,
            retention_ms,
        )
        self.run(self.coordinator.commit(token, request, self.now_ms))
        return token

    def commit_error(self, token: int, topic: str = "t") -> ErrorCode:
        result = self.replies[token]
        assert isinstance(result, CommitResult)
        return result.errors[(topic, 0)]

    def commit(
        self,
        offset: int,
        *,
        topic: str = "t",
        joined: JoinResult | None = None,
        group: str = GROUP,
        metadata: str | None = "",
        retention_ms: int = -1,
    ) -> ErrorCode:
        token = self.send_commit(
            offset,
            topic=topic,
            joined=joined,
            group=group,
            metadata=metadata,
            retention_ms=retention_ms,
        )
        return self.commit_error(token, topic)

    def committed(self, topic: str = "t", group: str = GROUP) -> int:
        request = FetchOffsetsRequest(group, ((topic, 0),))
        return self.coordinator.fetch_offsets(request).offsets[(topic, 0)].offset

    def state(self, group: str = GROUP) -> str:
        return self.coordinator.describe_group(group).state

    # -- short stories

    def stable_group(self, *instances: str | None) -> list[JoinResult]:
        """A stable group of these members (None: dynamic), the leader first, with shares."""
        ids = [self.member_id_of(self.join(instance=instance)) for instance in instances]
        return self.rebalanced(ids, instances)

    def member_id_of(self, token: int) -> str:
        """Who this join became, told or not yet."""
        if token in self.replies:
            return self.joined(token).member_id
        return self.coordinator.describe_group(GROUP).members[-1].member_id

    def rebalanced(
        self, member_ids: list[str], instances: tuple[str | None, ...]
    ) -> list[JoinResult]:
        tokens = [self.join(m, instance=i) for m, i in zip(member_ids, instances, strict=True)]
        joins = [self.joined(token) for token in tokens]
        assignments = {m: f"share {n}".encode() for n, m in enumerate(member_ids)}
        leaders = [j for j in joins if j.leader == j.member_id]
        for join in leaders + [j for j in joins if j not in leaders]:
            self.sync(join, assignments if join in leaders else None)
        assert self.state() == "Stable"
        return leaders + [j for j in joins if j not in leaders]


def dynamic(joined: JoinResult) -> LeavingMember:
    """A member that leaves by its own id."""
    return LeavingMember(joined.member_id)
