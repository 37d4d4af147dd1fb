"""What ails a queue in etcd and the etcd under it, and the way out of NOSPACE.

etcd raises NOSPACE when its database file reaches the quota: from then on it takes no puts, no
acknowledgements that store and no leases, while reads and deletes still work. The way back is
always the same: compact the history, defragment each member, clear the alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Final, NamedTuple

from nexus.etcd import AlarmKind, Client, EtcdError, Get, Keys, PermissionDenied, Status
from nexus.queue.etcd.admin import NOBODY, Overview, overview
from nexus.queue.etcd.layout import Layout
from nexus.queue.etcd.pressure import FULL_AT, quota_of
from nexus.queue.etcd.slots import partitions_of
from nexus.settings.units import format_duration

_WARN_AT: Final = 0.7  # of the quota
_OLD_MS: Final = 10 * 60_000
_DEFRAGMENT_S: Final = 600.0


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """One line of the doctor's; `advice` is what to do when all is not well."""

    check: str
    level: Level
    found: str
    advice: str = ""


class Health(NamedTuple):
    """The members, the alarms and the quota, as far as anybody tells."""

    members: dict[str, Status | EtcdError]
    alarms: tuple[AlarmKind, ...]
    quota_bytes: int

    @property
    def known(self) -> list[Status]:
        return [each for each in self.members.values() if isinstance(each, Status)]

    @property
    def db_bytes(self) -> int:
        return max((status.db_bytes for status in self.known), default=0)

    @property
    def in_use_bytes(self) -> int:
        return max((status.db_in_use_bytes for status in self.known), default=0)

    @property
    def no_space(self) -> bool:
        return AlarmKind.NO_SPACE in self.alarms


async def health(client: Client, told_quota: int | None = None) -> Health:
    """etcd's own state; a member that does not answer is one with an error."""
    endpoints = client.maintenance.endpoints
    asked = [client.maintenance.status(endpoint) for endpoint in endpoints]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    members: dict[str, Status | EtcdError] = {}
    for endpoint, answer in zip(endpoints, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, EtcdError):
            raise answer
        members[endpoint] = answer
    alarms: tuple[AlarmKind, ...] = ()
    if any(isinstance(each, Status) for each in members.values()):
        alarms = tuple(alarm.kind for alarm in await client.maintenance.alarms())
    return Health(members, alarms, await quota_of(client.config, told_quota))


async def examine(
    client: Client, layout: Layout, now_ms: int, told_quota: int | None = None
) -> list[Finding]:
    """Findings on etcd, then on the queue in it."""
    found = await health(client, told_quota)
    findings = [*_members(found), *space(found)]
    if not found.known:
        return findings
    try:
        limits = await client.limits()
        said = f"{limits.operations} operations and {_size(limits.request_bytes)} in a transaction"
        findings.append(Finding("limits", Level.OK, said))
        partitions = await partitions_of(client, layout)
        findings += _queue(await overview(client, layout), partitions, layout, now_ms)
    except EtcdError as error:
        advice = "see what the members say above; a user needs rights on the queue's prefix"
        findings.append(Finding("queue", Level.PROBLEM, str(error), advice))
    return findings


def _members(found: Health) -> list[Finding]:
    findings = [_member(endpoint, each) for endpoint, each in found.members.items()]
    if AlarmKind.CORRUPT in found.alarms:
        advice = "members differ: take the odd one out and let it join anew, as etcd's manual says"
        findings.append(Finding("alarm", Level.PROBLEM, "CORRUPT", advice))
    return findings


def _member(endpoint: str, status: Status | EtcdError) -> Finding:
    check = f"member {endpoint}"
    if isinstance(status, EtcdError):
        return Finding(check, Level.PROBLEM, str(status), "is it up, and is the address right?")
    sizes = f"{_size(status.db_bytes)}, {_size(status.db_in_use_bytes)} of it in use"
    said = f"etcd {status.version}, revision {status.revision}, database {sizes}"
    if not status.leader_id:
        return Finding(check, Level.PROBLEM, f"{said}, no leader", "more than half must be up")
    return Finding(check, Level.OK, said + (", leads" if status.is_leader else ""))


def space(found: Health) -> list[Finding]:
    """The database against its quota."""
    if not found.known:
        return []
    if found.no_space:
        return [_no_space(found)]
    if not found.quota_bytes:
        return [Finding("quota", Level.OK, "none is set")]
    return [_quota(found, found.in_use_bytes / found.quota_bytes)]


def _quota(found: Health, used: float) -> Finding:
    said = f"{used:.0%} of {_size(found.quota_bytes)} in use"
    if used >= FULL_AT:
        advice = "publishers wait: let collectors catch up, or nexus queue drain --older-than 1h"
        return Finding("quota", Level.PROBLEM, said, advice)
    if used >= _WARN_AT:
        advice = f"publishers wait from {FULL_AT:.0%} on: are collectors up, is history compacted?"
        return Finding("quota", Level.WARNING, said, advice)
    if found.db_bytes >= _WARN_AT * found.quota_bytes:
        said += f"; the file has {_size(found.db_bytes)}, most of it free inside"
        advice = "nexus queue doctor --recover gives it back, one member at a time"
        return Finding("quota", Level.WARNING, said, advice)
    return Finding("quota", Level.OK, said)


def _no_space(found: Health) -> Finding:
    quota = _size(found.quota_bytes)
    said = (
        f"NOSPACE: a database file of {_size(found.db_bytes)} reached its quota of {quota}"
        f" ({_size(found.in_use_bytes)} in use), and etcd takes no puts; reads and deletes work"
    )
    advice = "nexus queue doctor --recover compacts, defragments and clears the alarm"
    if found.quota_bytes and found.in_use_bytes >= FULL_AT * found.quota_bytes:
        advice = "first nexus queue drain --older-than 1h (it needs no puts), then " + advice
    return Finding("quota", Level.PROBLEM, said, advice)


def _queue(queue: Overview, partitions: int | None, layout: Layout, now_ms: int) -> list[Finding]:
    waiting = queue.totals.waiting
    if partitions is None and not waiting and not queue.slots:
        advice = "it is made when the first streamer publishes to it"
        return [Finding("queue", Level.WARNING, f"nothing under {layout.prefix} yet", advice)]
    said = f"{layout.prefix}: {waiting} keys wait in {len(queue.slots)} slots"
    findings = [Finding("queue", Level.OK, said), _readers(queue), _age(queue, now_ms)]
    if queue.totals.expired:
        advice = "the TTL ended before anybody took them: add collectors, or a longer MESSAGE_TTL"
        lost = f"{queue.totals.expired} keys so far"
        findings.append(Finding("expired", Level.WARNING, lost, advice))
    if queue.failed or queue.dead:
        lost = f"{queue.failed} messages failed and are tried again, {queue.dead} dead letters"
        findings.append(Finding("failures", Level.WARNING, lost, "nexus queue stuck says why"))
    return [each for each in findings if each is not None]


def _readers(queue: Overview) -> Finding:
    unread = [each for each in queue.slots if each.keys and each.reader == NOBODY]
    if unread:
        said = f"nobody takes messages out of {len(unread)} slots, first {unread[0].slot}"
        return Finding("readers", Level.WARNING, said, "start nexus collector --queue etcd://…")
    led = sum(each.reader == "collector" for each in queue.slots)
    return Finding("readers", Level.OK, f"collectors lead {led} slots; {queue.workers} workers")


def _age(queue: Overview, now_ms: int) -> Finding:
    if queue.oldest_ms is None:
        return Finding("oldest", Level.OK, "nothing waits")
    age_ms = max(0, now_ms - queue.oldest_ms)
    said = f"the oldest message waits for {format_duration(age_ms // 1000 * 1000) or '0s'}"
    if age_ms > _OLD_MS:
        return Finding("oldest", Level.WARNING, said, "readers fall behind: add some, or look why")
    return Finding("oldest", Level.OK, said)


class Step(NamedTuple):
    """One step of the recovery, in words, and how it went."""

    said: str
    done: bool


def plan(found: Health) -> list[str]:
    """What `recover` will do, to be shown before."""
    order = _one_at_a_time(found)
    steps = [
        "compact: forget the history of all keys (their newest values stay; nothing is deleted)",
        *(f"defragment {endpoint}: it answers nobody meanwhile" for endpoint in order),
    ]
    if found.no_space:
        steps.append("clear the alarm NOSPACE, so that etcd takes puts again")
    return steps


async def recover(
    client: Client, key: bytes, told_quota: int | None = None
) -> AsyncGenerator[Step, None]:
    """Make room without deleting anything. The last step says whether it was enough."""
    before = await health(client, told_quota)
    revision = (await client.range(Get(Keys(key), count_only=True))).revision
    await client.maintenance.compact(revision, physical=True)
    yield Step(f"compacted up to revision {revision}", True)
    for endpoint in _one_at_a_time(before):
        yield await _defragmented(client, endpoint)
    after = await health(client, told_quota)
    # Cleared now, the alarm would be back with the next few puts.
    if after.quota_bytes and after.db_bytes >= FULL_AT * after.quota_bytes:
        yield Step(_still_full(after), False)
        return
    for alarm in await client.maintenance.alarms():
        if alarm.kind is AlarmKind.NO_SPACE:
            await client.maintenance.disarm(alarm)
            yield Step(f"cleared NOSPACE of member {alarm.member_id:x}", True)
    yield Step(f"database {_size(before.db_bytes)} before, {_size(after.db_bytes)} now", True)


async def _defragmented(client: Client, endpoint: str) -> Step:
    try:
        await client.maintenance.defragment(endpoint, timeout_s=_DEFRAGMENT_S)
    except PermissionDenied:
        return Step(f"{endpoint}: only etcd's user root may defragment", False)
    except EtcdError as error:
        return Step(f"{endpoint}: {error}", False)
    return Step(f"defragmented {endpoint}", True)


def _still_full(after: Health) -> str:
    return (
        f"{_size(after.in_use_bytes)} are in use and the quota is {_size(after.quota_bytes)}: take"
        " messages out with nexus queue drain --older-than 1h, or give etcd a larger"
        " --quota-backend-bytes, and do this again; NOSPACE stays until then"
    )


def _one_at_a_time(found: Health) -> list[str]:
    """The members that answer, the leader last: it need not move meanwhile."""
    known = {at: each for at, each in found.members.items() if isinstance(each, Status)}
    return sorted(known, key=lambda at: known[at].is_leader)


def _size(size: int) -> str:
    """About how many bytes, for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
