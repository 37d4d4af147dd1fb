"""What the doctor of a queue in etcd makes of sizes, alarms and members."""

from __future__ import annotations

import pytest

from nexus.etcd import AlarmKind, EtcdError, Status
from nexus.queue.etcd.doctor import Health, Level, plan, space

GIB = 1 << 30


def status(member: int = 1, leader: int = 1, db: int = GIB, in_use: int = GIB) -> Status:
    return Status(member, leader, 10, 1, "3.4.23", db, in_use, (), False)


def health(db: float, in_use: float, *alarms: AlarmKind, quota: int = 2 * GIB) -> Health:
    sizes = status(db=int(db * GIB), in_use=int(in_use * GIB))
    return Health({"a:1": sizes}, alarms, quota)


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        (health(0.5, 0.4), Level.OK, "20% of 2.0 GiB in use"),
        (health(1.5, 1.45), Level.WARNING, "are collectors up"),
        (health(1.9, 1.8), Level.PROBLEM, "drain --older-than"),
        (health(1.6, 0.2), Level.WARNING, "most of it free inside"),
        (health(9.0, 9.0, quota=0), Level.OK, "none is set"),
        (health(2.0, 0.2, AlarmKind.NO_SPACE), Level.PROBLEM, "NOSPACE: a database file of 2.0"),
    ],
)
def test_the_database_is_judged_against_its_quota(found: Health, level: Level, words: str) -> None:
    (finding,) = space(found)
    assert finding.level is level
    assert words in f"{finding.found} {finding.advice}"


def test_at_the_quota_draining_comes_first_only_where_much_is_in_use() -> None:
    (mostly_free,) = space(health(2.0, 0.2, AlarmKind.NO_SPACE))
    (full,) = space(health(2.0, 1.9, AlarmKind.NO_SPACE))
    assert mostly_free.advice.startswith("nexus queue doctor --recover")
    assert full.advice.startswith("first nexus queue drain --older-than 1h")


def test_the_recovery_defragments_the_leader_last_and_leaves_out_who_is_away() -> None:
    members: dict[str, Status | EtcdError] = {
        "a:1": status(1, leader=1),
        "b:1": status(2, leader=1),
        "c:1": EtcdError("away"),
    }
    said = plan(Health(members, (AlarmKind.NO_SPACE,), 2 * GIB))
    assert [line.split(":")[0] for line in said[:3]] == ["compact", "defragment b", "defragment a"]
    assert "NOSPACE" in said[3]
    assert len(plan(Health(members, (), 2 * GIB))) == 3
