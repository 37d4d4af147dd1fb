"""`nexus queue` against a real etcd: what waits, what is stuck, emptying it, and NOSPACE."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.cli.entry import run
from nexus.etcd import NoSpace
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.claims import ClaimOptions
from nexus.queue.etcd.forms import pack
from nexus.queue.etcd.layout import Slot
from nexus.queue.etcd.worker import Worker
from nexus.queue.port import Message
from support.etcd import EtcdMember
from support.etcd_queue import TestQueue

Out = pytest.CaptureFixture[str]
SLOTS = [Slot("c1", 0), Slot("c1", 1)]
HOUR_NS = 3_600_000_000_000


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    etcd = EtcdMember(tmp_path_factory.mktemp("etcd")).start()
    yield etcd
    etcd.kill()


@pytest.fixture(scope="module")
def client(member: EtcdMember) -> Iterator[BlockingClient]:
    with BlockingClient(member.config()) as etcd:
        yield etcd


@pytest.fixture
def queue(member: EtcdMember, client: BlockingClient, name: str) -> TestQueue:
    return TestQueue(client, member.endpoint, f"/{name}/queue")


def call(queue: TestQueue, *words: str) -> int:
    return run(["queue", words[0], *words[1:], "--queue", queue.address])


def as_json(capsys: Out, queue: TestQueue, *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert call(queue, *words, "--json") == code
    return json.loads(capsys.readouterr().out)


def failed_twice(queue: TestQueue) -> None:
    """One message failed and is to be tried again, another is a dead letter."""
    queue.publish(2, SLOTS[:1])
    options = ClaimOptions(name="w", max_attempts=2, retry_s=0.01, poll_s=0.05)
    with Worker(queue.address, options) as worker:
        worker.nack(worker.claim(10, wait_s=1), "no such GPU")
        worker.nack(worker.claim(10, wait_s=1), "no such GPU at all")


def test_depth_shows_slots_readers_and_totals(queue: TestQueue, capsys: Out) -> None:
    queue.publish(5, SLOTS)
    queue.etcd.put(f"{queue.prefix}/loose".encode(), b"{}")
    queue.etcd.put(queue.layout.meta("collectors", "1"), b"{}")
    found = as_json(capsys, queue, "depth")
    rows = {row["slot"]: row for row in found["slots"]}
    assert (rows["c1/0"]["keys"], rows["c1/0"]["reader"]) == (3, None)
    assert (rows["c1/1"]["keys"], rows["c1/1"]["reader"]) == (2, "collector")
    assert (found["waiting"], found["beside"], found["expired"]) == (6, 1, 0)
    assert found["published"] == {"keys": 5, "messages": 5}
    assert call(queue, "depth") == 0
    text = capsys.readouterr().out
    assert "c1/0" in text
    assert "6 keys wait; published 5 keys (5 messages), taken out 0 (0), expired 0" in text


def test_peek_shows_the_oldest_first_and_takes_nothing(queue: TestQueue, capsys: Out) -> None:
    keys = queue.publish(6, SLOTS)
    found = as_json(capsys, queue, "peek", "3")
    assert [row["key"].encode() for row in found] == keys[:3]
    assert [row["messages"][0]["value"] for row in found] == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    (one,) = as_json(capsys, queue, "peek", "1", "--slot", "c1/1")
    assert one["key"].encode() == keys[1]
    assert call(queue, "peek", "1") == 0
    assert capsys.readouterr().out == f'{keys[0].decode()}  {{"n": 0}}\n'
    assert len(queue.waiting()) == 6


def test_peek_unpacks_frames(queue: TestQueue, capsys: Out) -> None:
    slot = SLOTS[0]
    packed = pack([Message(b"one", b"k"), Message(b"two")], 5)
    queue.put([(queue.layout.message(slot, 1, "h", "packed-2", 1), packed)], [slot])
    (row,) = as_json(capsys, queue, "peek")
    assert [each["value"] for each in row["messages"]] == ["one", "two"]
    assert row["readings"] == 2
    call(queue, "peek")
    assert "one  (and 1 more)" in capsys.readouterr().out


def test_stuck_tells_failures_dead_letters_and_what_nobody_reads(
    queue: TestQueue, capsys: Out
) -> None:
    assert call(queue, "stuck") == 0
    assert capsys.readouterr().out == "nothing is stuck\n"
    failed_twice(queue)
    old = time.time_ns() - HOUR_NS
    queue.put([(queue.key(9, SLOTS[1], old), b"{}")], SLOTS[1:])
    found = as_json(capsys, queue, "stuck", code=1)
    by_kind = {row["kind"]: row for row in found if row["where"] != "c1/0"}
    assert (by_kind["failed"]["attempts"], by_kind["failed"]["why"]) == (1, "no such GPU")
    assert (by_kind["dead"]["attempts"], by_kind["dead"]["why"]) == (2, "no such GPU at all")
    assert by_kind["dead"]["where"].startswith(f"{queue.prefix}.dlq/c1/0/")
    assert (by_kind["nobody"]["where"], by_kind["nobody"]["why"]) == (
        "c1/1",
        "1 keys wait and nobody reads",
    )
    assert call(queue, "stuck") == 1
    assert "no such GPU at all" in capsys.readouterr().out


def test_stuck_tells_whose_claims_were_left_behind(queue: TestQueue, capsys: Out) -> None:
    queue.publish(2, SLOTS[:1])
    record = {"worker": "gone-1", "first": "/a", "last": "/b", "at_ms": 5}
    queue.etcd.put(queue.layout.meta("claimed", "c1/0", "x"), json.dumps(record).encode())
    found = as_json(capsys, queue, "stuck", "--older-than", "3000d", code=1)
    assert [(row["kind"], row["where"]) for row in found] == [("in hand", "/a")]
    assert "worker gone-1 is gone" in found[0]["why"]


def test_drain_deletes_what_it_says_and_counts_it(queue: TestQueue, capsys: Out) -> None:
    now = time.time_ns()
    old = [queue.key(n, SLOTS[0], now - HOUR_NS * 2 + n) for n in range(3)]
    new = [queue.key(n, SLOTS[0], now - n) for n in range(3)]
    queue.put([(key, b"{}") for key in (*old, *new)], SLOTS[:1])
    queue.publish(2, SLOTS[1:])
    found = as_json(capsys, queue, "drain", "--older-than", "1h", "--slot", "c1/0", "--yes")
    assert found == {
        "taken": {"keys": 3, "messages": 3},
        "uncounted": {"keys": 0, "messages": 0},
    }
    assert len(queue.waiting()) == 5
    assert call(queue, "drain", "--yes") == 0
    assert capsys.readouterr().out == "5 keys (5 messages) were deleted\n"
    assert queue.waiting() == []
    assert (queue.totals().taken.keys, queue.totals().expired) == (8, 0)


def test_drain_saves_messages_before_they_are_deleted(
    queue: TestQueue, tmp_path: Path, capsys: Out
) -> None:
    keys = queue.publish(70, SLOTS)
    file = tmp_path / "saved.jsonl"
    as_json(capsys, queue, "drain", "--save", str(file), "--yes")
    saved = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(row["key"].encode() for row in saved) == sorted(keys)
    assert {row["messages"][0]["value"] for row in saved} == {f'{{"n": {n}}}' for n in range(70)}


def test_drain_asks_before_it_deletes(queue: TestQueue, capsys: Out) -> None:
    queue.publish(2)
    assert call(queue, "drain") == 2
    assert "Delete 2 keys of messages of etcd://" in capsys.readouterr().err
    assert len(queue.waiting()) == 2


def test_drain_removes_dead_letters_with_their_reasons(queue: TestQueue, capsys: Out) -> None:
    failed_twice(queue)
    assert call(queue, "peek", "--dead") == 0
    assert f"{queue.prefix}.dlq/c1/0/" in capsys.readouterr().out
    as_json(capsys, queue, "drain", "--dead", "--yes")
    assert queue.all(queue.layout.dead_letters) == queue.all(queue.layout.metas("dead")) == []
    assert len(queue.waiting()) == 1


def test_watch_prints_messages_as_they_come(queue: TestQueue, capsys: Out) -> None:
    timers = [threading.Timer(0.3 + n / 10, queue.publish, (1,)) for n in range(8)]
    for timer in timers:
        timer.start()
    assert call(queue, "watch", "--max", "3", "--json") == 0
    for timer in timers:
        timer.join()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    numbers = [json.loads(row["messages"][0]["value"])["n"] for row in rows]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_doctor_finds_a_healthy_queue_well(queue: TestQueue, capsys: Out) -> None:
    queue.publish(1)
    queue.etcd.put(queue.layout.meta("config"), b'{"partitions": 12}')
    queue.etcd.put(queue.layout.meta("collectors", "all"), b"{}")
    queue.etcd.delete(queue.layout.messages)
    found = as_json(capsys, queue, "doctor")
    by_check = {row["check"]: row for row in found["findings"]}
    assert found["ok"]
    assert by_check["limits"]["found"] == "128 operations and 1.5 MiB in a transaction"
    assert "of 2.0 GiB in use" in by_check["quota"]["found"]
    assert (by_check["expired"]["level"], by_check["expired"]["found"]) == (
        "warning",
        "1 keys so far",
    )
    assert call(queue, "doctor") == 0
    assert "0 problems, 1 warnings" in capsys.readouterr().out


def test_doctor_says_what_is_missing(queue: TestQueue, capsys: Out) -> None:
    found = as_json(capsys, queue, "doctor")
    assert "nothing under" in str(found)
    assert run(["queue", "doctor", "--queue", "etcd://127.0.0.1:1", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [row["level"] for row in said["findings"]] == ["problem"]


def test_a_queue_of_kafka_is_refused_with_the_commands_for_it(capsys: Out) -> None:
    assert run(["queue", "depth", "--queue", "kafka://h:1/t"]) == 2
    assert "nexus topics and nexus groups" in capsys.readouterr().err


def fill(queue: TestQueue) -> None:
    for n in range(100):
        queue.put([(queue.key(1000 + n, SLOTS[0]), bytes(500_000))], SLOTS[:1])


@pytest.fixture
def small(tmp_path: Path, name: str) -> Iterator[TestQueue]:
    """A queue in an etcd of its own, at its quota."""
    member = EtcdMember(tmp_path, flags=("--quota-backend-bytes", str(12 << 20))).start()
    try:
        with BlockingClient(member.config()) as etcd:
            queue = TestQueue(etcd, member.endpoint, f"/{name}")
            queue.publish(3, SLOTS)
            with pytest.raises(NoSpace):
                fill(queue)
            yield queue
    finally:
        member.kill()


def test_a_queue_at_its_quota_is_explained_drained_and_recovered(
    small: TestQueue, capsys: Out
) -> None:
    found = as_json(capsys, small, "doctor", code=1)
    (quota,) = (row for row in found["findings"] if row["check"] == "quota")
    assert "NOSPACE: a database file of" in quota["found"]
    assert "reached its quota of 12.0 MiB" in quota["found"]
    assert "first nexus queue drain" in quota["advice"]
    # What is in use does not fit: the recovery says so, and leaves the alarm as it is.
    assert call(small, "doctor", "--recover", "--yes") == 1
    said = capsys.readouterr().out
    assert "  1. compact: " in said
    assert "NOT DONE: " in said
    with pytest.raises(NoSpace):
        small.etcd.put(b"x", b"")
    # Messages are taken out where nothing can be put, and counted when that works again.
    drained = as_json(capsys, small, "drain", "--yes")
    assert drained["uncounted"]["keys"] == drained["taken"]["keys"] > 3
    assert small.waiting() == []
    steps = as_json(capsys, small, "doctor", "--recover", "--yes")
    assert steps["ok"]
    small.etcd.put(b"x", b"")
    assert small.etcd.run(lambda client: client.maintenance.alarms()) == ()
    assert as_json(capsys, small, "doctor")["ok"]
