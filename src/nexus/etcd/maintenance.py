"""What an operator does to etcd itself: look, compact, defragment, clear alarms, compare members.

Calls that concern one member take its endpoint; the others are the cluster's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from nexus.etcd import schema
from nexus.etcd.caller import Caller
from nexus.etcd.errors import Compacted


class AlarmKind(IntEnum):
    NONE = 0
    NO_SPACE = 1
    CORRUPT = 2


class _AlarmAction(IntEnum):
    GET = 0
    DEACTIVATE = 2


class Alarm(NamedTuple):
    """A member is at its quota, or differs from the others."""

    member_id: int
    kind: AlarmKind


class Status(NamedTuple):
    """One member. `db_in_use_bytes` is what would be left of `db_bytes` after a defragmentation."""

    member_id: int
    leader_id: int
    revision: int
    raft_term: int
    version: str
    db_bytes: int
    db_in_use_bytes: int
    problems: tuple[str, ...]
    learner: bool

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader_id


class Hash(NamedTuple):
    """The digest of all keys up to a revision: equal on members that agree."""

    revision: int
    hash: int
    compact_revision: int


class Maintenance:
    """The maintenance calls of one client."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def endpoints(self) -> tuple[str, ...]:
        return self._caller.config.endpoints

    @property
    def endpoint(self) -> str:
        """The endpoint in use."""
        return self._caller.rotation.current

    async def status(self, endpoint: str | None = None) -> Status:
        """A member's state, quorum or not; of the endpoint in use unless one is named."""
        where = endpoint or self.endpoint
        answer = await self._caller.call_at(where, schema.STATUS, schema.STATUS.request())
        return Status(
            answer.header.member_id,
            answer.leader,
            answer.header.revision,
            answer.raft_term,
            answer.version,
            answer.db_size,
            answer.db_size_in_use,
            tuple(answer.errors),
            answer.is_learner,
        )

    async def alarms(self) -> tuple[Alarm, ...]:
        return await self._alarm(schema.ALARM.request(action=_AlarmAction.GET))

    async def disarm(self, alarm: Alarm) -> None:
        """Let the member serve again; it raises the alarm anew if nothing has changed."""
        request = schema.ALARM.request(
            action=_AlarmAction.DEACTIVATE, member_id=alarm.member_id, alarm=alarm.kind
        )
        await self._alarm(request)

    async def compact(self, revision: int, *, physical: bool = False) -> bool:
        """Forget what was before `revision`; False if that was done already.

        With `physical`, returns only when the space is free inside the database.
        """
        request = schema.COMPACT.request(revision=revision, physical=physical)
        try:
            await self._caller.call(schema.COMPACT, request, repeatable=True)
        except Compacted:
            return False
        return True

    async def defragment(self, endpoint: str, *, timeout_s: float = 60.0) -> None:
        """Give free space back to the disk. The member answers nobody meanwhile: one at a time."""
        await self._caller.call_at(
            endpoint, schema.DEFRAGMENT, schema.DEFRAGMENT.request(), timeout_s
        )

    async def hash(self, endpoint: str, revision: int = 0) -> Hash:
        """A member's digest at a revision, the newest unless told."""
        answer = await self._caller.call_at(
            endpoint, schema.HASH, schema.HASH.request(revision=revision)
        )
        return Hash(revision or answer.header.revision, answer.hash, answer.compact_revision)

    async def _alarm(self, request: object) -> tuple[Alarm, ...]:
        answer = await self._caller.call(schema.ALARM, request, repeatable=True)
        return tuple(Alarm(each.member_id, AlarmKind(each.alarm)) for each in answer.alarms)
