"""Claim workers on a real etcd: messages in hand, settled once, and given back by the dead."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nexus.etcd import EtcdConfig, Put, connect
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.etcd.claims import ClaimOptions, joined
from nexus.queue.etcd.hands import Claimed, ClaimLost
from nexus.queue.etcd.layout import Slot
from nexus.queue.etcd.worker import Worker, options_of
from nexus.settings.collector import load_collector_settings
from support.etcd import CuttingProxy, EtcdCluster, EtcdMember
from support.etcd_queue import START_NS, TestQueue
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SLOTS = [Slot("c1", partition) for partition in range(6)]
QUICK = ClaimOptions(name="w", lease_s=2, retry_s=0.01, poll_s=0.2)


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


def results(queue: TestQueue, claims: list[Claimed]) -> list[Put]:
    """What a worker stores: one key for each message."""
    return [Put(queue.results.start + each.key.rpartition(b"/")[2], each.value) for each in claims]


def claim_all(worker: Worker, n: int = 100, wait_s: float = 1.0) -> list[Claimed]:
    """Everything that can be claimed now, and stays in hand."""
    found: list[Claimed] = []
    while some := worker.claim(n, wait_s=0 if found else wait_s):
        found += some
    return found


def metas(queue: TestQueue, kind: str) -> list[bytes]:
    return [item.value for item in queue.all(queue.layout.metas(kind))]


def test_acknowledging_and_storing_are_one_step(queue: TestQueue) -> None:
    queue.publish(30, SLOTS[:2])
    with Worker(queue.address, QUICK) as worker:
        claims = claim_all(worker)
        assert len(claims) == 30
        assert claim_all(worker, wait_s=0) == []
        assert len(queue.waiting()) == 30
        worker.ack(claims, results(queue, claims))
        assert queue.waiting() == []
        assert queue.stored() == list(range(30))
        assert metas(queue, "claimed") == []
        stored = {item.mod_revision for item in queue.all(queue.results)}
        assert len(stored) == 1
    totals = queue.totals()
    assert (totals.taken.keys, totals.waiting, totals.expired) == (30, 0, 0)


def test_settling_twice_or_what_is_not_in_hand_is_an_error(queue: TestQueue) -> None:
    queue.publish(3)
    with Worker(queue.address, QUICK) as worker:
        claims = worker.claim(10, wait_s=1)
        worker.ack(claims[:1])
        with pytest.raises(ClaimLost, match="not in hand"):
            worker.ack(claims[:1])
        with pytest.raises(ClaimLost, match="not in hand"):
            worker.nack(claims[:2], "no")
        worker.ack(claims[1:])
    assert queue.waiting() == []


def test_a_late_insert_between_messages_in_hand_is_neither_lost_nor_deleted(
    queue: TestQueue,
) -> None:
    slot = SLOTS[0]
    queue.publish(5, [slot])
    with Worker(queue.address, QUICK) as worker:
        claims = worker.claim(10, wait_s=1)
        late = [queue.key(100 + n, slot, START_NS + n * 1000 + 500) for n in range(3)]
        queue.put([(key, b'{"n": %d}' % (100 + n)) for n, key in enumerate(late)], [slot])
        worker.ack(claims, results(queue, claims))
        assert [item.key for item in queue.waiting()] == late
        assert worker.conflicts == 1
        again = claim_all(worker)
        assert [each.key for each in again] == late
        worker.ack(again, results(queue, again))
    assert queue.stored() == [0, 1, 2, 3, 4, 100, 101, 102]
    assert queue.totals().expired == 0


@pytest.mark.parametrize("behind_s", [5, 3600])
def test_messages_of_hosts_whose_clocks_are_behind_are_claimed(
    queue: TestQueue, behind_s: int
) -> None:
    slot = SLOTS[0]
    queue.publish(3, [slot])
    with Worker(queue.address, QUICK) as worker:
        worker.ack(worker.claim(10, wait_s=1))
        key = queue.key(9, slot, START_NS - behind_s * 1_000_000_000)
        queue.put([(key, b"{}")], [slot])
        (late,) = worker.claim(10, wait_s=5)
        assert late.key == key


def test_a_message_put_anew_under_its_key_is_another_message(queue: TestQueue) -> None:
    (key, *_) = queue.publish(3)
    with Worker(queue.address, QUICK) as worker:
        claims = worker.claim(10, wait_s=1)
        queue.put([(key, b'{"n": 77}')])
        worker.ack(claims)
        (again,) = claim_all(worker)
        assert (again.key, again.value) == (key, b'{"n": 77}')


def test_more_than_a_transaction_holds_is_acknowledged_in_several(queue: TestQueue) -> None:
    slot = SLOTS[0]
    packed = queue.layout.message(slot, START_NS, "h", "packed-300", 1)
    queue.put([(packed, b"{}")], [slot])
    queue.publish(10, [slot])
    with Worker(queue.address, QUICK) as worker:
        claims = claim_all(worker)
        many = [Put(queue.results.start + b"%04d" % n, b'{"n": %d}' % n) for n in range(300)]
        with pytest.raises(QueueError, match="--max-txn-ops"):
            worker.ack(claims, many)
        pairs = [(each, many if each.key == packed else []) for each in claims]
        worker.ack_each(pairs)
    assert queue.stored() == list(range(300))
    assert queue.waiting() == []
    assert (queue.totals().taken.keys, queue.totals().taken.messages) == (11, 310)


def test_a_failure_is_counted_waits_and_ends_among_the_dead_letters(queue: TestQueue) -> None:
    keys = queue.publish(3)
    options = ClaimOptions(name="w", lease_s=2, retry_s=0.01, max_attempts=3, poll_s=0.05)
    with Worker(queue.address, options) as worker:
        claims = worker.claim(10, wait_s=1)
        worker.nack(claims[:1], "no such GPU")
        worker.ack(claims[1:])
        for attempt in (1, 2):
            (again,) = worker.claim(10, wait_s=2)
            assert (again.key, again.attempts) == (keys[0], attempt)
            worker.nack([again], f"still no such GPU ({attempt})")
        assert worker.claim(10, wait_s=0.2) == []
        assert worker.buried == 1
        queue.put([(keys[0], b'{"n": 0}')])  # by hand, once it is put right
        (anew,) = worker.claim(10, wait_s=2)
        assert anew.attempts == 0
        worker.ack([anew])
    (dead,) = queue.all(queue.layout.dead_letters)
    assert (dead.key, dead.value) == (queue.layout.dead_letter(keys[0]), b'{"n": 0}')
    (why,) = (json.loads(value) for value in metas(queue, "dead"))
    assert (why["attempts"], why["reason"]) == (3, "still no such GPU (2)")
    assert metas(queue, "failed") == metas(queue, "claimed") == []
    assert queue.waiting() == []
    assert (queue.totals().taken.keys, queue.totals().expired) == (4, 0)


def test_an_acknowledged_retry_leaves_no_count_behind(queue: TestQueue) -> None:
    queue.publish(2)
    with Worker(queue.address, QUICK) as worker:
        worker.nack(worker.claim(10, wait_s=1), "a bad moment")
        assert len(metas(queue, "failed")) == 2
        for _ in range(2):
            claims = worker.claim(10, wait_s=2)
            assert len(claims) == 1  # singly, after a failure
            worker.ack(claims)
    assert metas(queue, "failed") == []


def test_workers_share_the_slots_evenly_and_take_over_when_one_leaves(queue: TestQueue) -> None:
    queue.publish(60, SLOTS)
    with Worker(queue.address, QUICK) as first:
        assert len(first.slots) == 6
        with Worker(queue.address, QUICK) as second:
            wait_until(lambda: (len(first.slots), len(second.slots)) == (3, 3))
            assert not set(first.slots) & set(second.slots)
            taken = [claim_all(worker, wait_s=2) for worker in (first, second)]
            assert [len(claims) for claims in taken] == [30, 30]
            first.ack(taken[0])
            second.ack(taken[1][:10])
        wait_until(lambda: len(first.slots) == 6)
        left = claim_all(first)
        assert len(left) == 20
        assert {each.attempts for each in left} == {0}  # given back in good order


def test_a_slot_with_messages_in_hand_moves_only_when_they_are_settled(queue: TestQueue) -> None:
    queue.publish(12, SLOTS)
    with Worker(queue.address, QUICK) as first:
        claims = claim_all(first)
        with Worker(queue.address, QUICK) as second:
            assert second.claim(10, wait_s=0.5) == []
            assert second.slots == ()
            first.ack(claims)
            wait_until(lambda: len(second.slots) == 3)


def test_a_worker_takes_only_partitions_of_its_range(queue: TestQueue) -> None:
    queue.publish(12, SLOTS)
    environ = {"COLLECTOR_ID": "c7", "POLL_TIMEOUT": "3s", "WORKERS": "4"}
    environ |= {"COLLECTOR_RANGE_START": "2", "COLLECTOR_RANGE_END": "3"}
    options = options_of(load_collector_settings(environ=environ))
    assert (options.name, options.poll_s, options.workers) == ("c7", 3.0, 4)
    with Worker(queue.address, options) as worker:
        assert {slot.partition for slot in worker.slots} == {2, 3}
        assert {each.slot.partition for each in claim_all(worker)} == {2, 3}


def test_workers_and_collectors_exclude_each_other(queue: TestQueue) -> None:
    queue.publish(12, SLOTS)
    leader = queue.layout.meta("collectors", "0-3")
    queue.etcd.put(leader, b"{}")
    with Worker(queue.address, QUICK) as worker:
        assert {slot.partition for slot in worker.slots} == {4, 5}
        queue.etcd.delete(leader)
        wait_until(lambda: len(worker.slots) == 6)
        queue.etcd.put(leader, b"{}")
        wait_until(lambda: len(worker.slots) == 2)


def test_a_bell_wakes_a_worker_that_waits(queue: TestQueue) -> None:
    queue.publish(1, SLOTS[:1])
    patient = ClaimOptions(name="w", lease_s=2, poll_s=30.0)
    with Worker(queue.address, patient) as worker:
        worker.ack(worker.claim(10, wait_s=1))
        threading.Timer(0.3, queue.publish, (1, SLOTS[:1])).start()
        started = time.monotonic()
        assert len(worker.claim(10, wait_s=20)) == 1
        assert time.monotonic() - started < 15


def test_a_paused_worker_that_lost_its_lease_settles_nothing(queue: TestQueue) -> None:
    queue.publish(4)
    with Worker(queue.address, QUICK) as worker:
        claims = worker.claim(10, wait_s=1)
        (owner,) = queue.all(queue.layout.metas("owners"))
        queue.etcd.run(lambda client: client.leases.revoke(owner.lease))
        with pytest.raises(ClaimLost):
            worker.ack(claims, results(queue, claims))
        assert queue.stored() == []
        assert len(queue.waiting()) == 4
        # It begins again by itself; what it had in hand counts as an attempt.
        found: list[Claimed] = []
        wait_until(lambda: _claimed_into(found, worker) == 4)
        assert {each.attempts for each in found} == {1}
        worker.ack(found, results(queue, found))
    assert queue.stored() == [0, 1, 2, 3]


def test_messages_of_kafka_are_not_claimed() -> None:
    with pytest.raises(QueueError, match="consumer group"):
        Worker("kafka://localhost:9092/t")


def test_keys_of_other_programs_are_adopted_and_claimed(queue: TestQueue) -> None:
    queue.etcd.put(f"{queue.prefix}/flat".encode(), b'{"n": 1}')
    queue.etcd.put(f"{queue.prefix}/c9/4/unregistered".encode(), b'{"n": 2}')
    with Worker(queue.address, QUICK) as worker:
        found: list[Claimed] = []
        wait_until(lambda: _claimed_into(found, worker) == 2)
        assert {each.value for each in found} == {b'{"n": 1}', b'{"n": 2}'}
        worker.ack(found)
    assert queue.waiting() == []


def test_a_worker_goes_on_when_etcd_was_away(tmp_path: Path, name: str) -> None:
    member = EtcdMember(tmp_path).start()
    try:
        with BlockingClient(member.config()) as etcd:
            queue = TestQueue(etcd, member.endpoint, f"/{name}")
            queue.publish(4)
            with Worker(queue.address, QUICK) as worker:
                worker.ack(worker.claim(2, wait_s=1))
                member.kill()
                time.sleep(2.5)  # longer than the lease
                member.start()
                found: list[Claimed] = []
                wait_until(lambda: _claimed_into(found, worker) == 2, within=20)
                worker.ack(found)
            assert queue.waiting() == []
    finally:
        member.kill()


def _claimed_into(found: list[Claimed], worker: Worker) -> int:
    with suppress(QueueAway):
        found += worker.claim(10, wait_s=0.2)
    return len(found)


def test_a_failing_handler_fails_its_own_message_only(queue: TestQueue) -> None:
    queue.publish(40, SLOTS)
    options = ClaimOptions(name="w", max_attempts=2, retry_s=0.01, poll_s=0.05, workers=3)

    def handle(claimed: Claimed) -> list[Put]:
        number = json.loads(claimed.value)["n"]
        if number == 7:
            raise ValueError("seven")
        if number == 11:
            return [Put(queue.results.start + b"11", bytes(3 << 20))]
        return results(queue, [claimed])

    with Worker(queue.address, options) as worker:
        working = threading.Thread(target=worker.work, args=(handle,))
        working.start()
        wait_until(lambda: queue.count(queue.layout.messages) == 0)
        worker.stop()
        working.join(10)
        assert not working.is_alive()
    assert queue.stored() == [n for n in range(40) if n not in (7, 11)]
    seven, eleven = sorted((json.loads(v) for v in metas(queue, "dead")), key=_reason)
    assert (seven["reason"], seven["attempts"]) == ("ValueError: seven", 2)
    assert "larger than max" in eleven["reason"]


def _reason(cause: dict[str, str]) -> bool:
    return not cause["reason"].startswith("ValueError")


class WorkerProcess:
    """`support.claim_worker`, started and killed."""

    def __init__(self, queue: TestQueue, pause_s: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.claim_worker", queue.address, str(pause_s)],
            cwd=ROOT / "tests",
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        )

    def wait_joined(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"joined\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


def settled_once(queue: TestQueue, messages: int) -> None:
    stored = queue.all(queue.results)
    assert queue.stored() == list(range(messages))
    assert {item.version for item in stored} == {1}  # put once: processed once
    totals = queue.totals()
    assert (totals.taken.keys, totals.expired) == (messages, 0)
    assert metas(queue, "claimed") == metas(queue, "failed") == []


def more_stored(queue: TestQueue) -> Callable[[], bool]:
    before = queue.count(queue.results)
    return lambda: queue.count(queue.results) > before


def kill_and_check(queue: TestQueue, messages: int, kills: int, seed: int) -> None:
    """Workers are killed one after the other, and the last one finishes."""
    queue.publish(messages, SLOTS)
    chance = random.Random(seed)
    workers = [WorkerProcess(queue, 0.002) for _ in range(kills + 1)]
    orphaned = 0
    try:
        for worker in workers:
            worker.wait_joined()
        for worker in workers[:-1]:
            wait_until(more_stored(queue), within=30)
            time.sleep(chance.random() * 0.1)
            worker.kill()
            orphaned += len(metas(queue, "claimed"))
        wait_until(lambda: queue.count(queue.layout.messages) == 0, within=60, every=0.1)
        wait_until(lambda: metas(queue, "claimed") == [])
    finally:
        for worker in workers:
            worker.kill()
    assert orphaned  # they were killed with messages in hand
    settled_once(queue, messages)


def test_killed_workers_lose_nothing_and_process_nothing_twice(queue: TestQueue) -> None:
    kill_and_check(queue, 3000, kills=2, seed=1)


@pytest.mark.chaos
def test_many_killed_workers_lose_nothing_and_process_nothing_twice(queue: TestQueue) -> None:
    kill_and_check(queue, 25_000, kills=6, seed=2)


def test_a_worker_stopped_past_its_lease_processes_nothing_twice(queue: TestQueue) -> None:
    first, second = WorkerProcess(queue, 0.002), WorkerProcess(queue, 0.0)
    try:
        for worker in (first, second):
            worker.wait_joined()
        queue.publish(800, SLOTS)
        wait_until(lambda: queue.count(queue.results) > 20, within=20, every=0.001)
        first.process.send_signal(signal.SIGSTOP)
        assert metas(queue, "claimed")
        wait_until(lambda: queue.count(queue.layout.messages) == 0, within=30, every=0.1)
        first.process.send_signal(signal.SIGCONT)
        queue.publish(200, SLOTS)
        wait_until(lambda: queue.count(queue.layout.messages) == 0, within=30, every=0.1)
    finally:
        for worker in (first, second):
            worker.kill()
    assert {item.version for item in queue.all(queue.results)} == {1}
    assert queue.stored() == list(range(1000))


def test_an_acknowledgement_whose_answer_was_lost_happens_once(
    queue: TestQueue, member: EtcdMember
) -> None:
    queue.publish(6)

    def in_etcd(stored: int) -> Callable[[], bool]:
        return lambda: len(queue.stored()) == stored

    async def story() -> None:
        async with (
            CuttingProxy(member.port) as proxy,
            connect(EtcdConfig((proxy.endpoint,))) as client,
        ):
            worker = await joined(client, queue.layout, ClaimOptions(name="w"))
            claims = await worker.claim(10, wait_s=1)
            for part in (claims[:3], claims[3:]):
                proxy.lose_answers = True
                acking = asyncio.create_task(worker.ack(part, results(queue, part)))
                await asyncio.to_thread(wait_until, in_etcd(len(queue.stored()) + 3))
                proxy.lose_answers = False
                await proxy.cut()
                await acking
            await worker.close()

    asyncio.run(story())
    assert queue.stored() == list(range(6))
    assert {item.version for item in queue.all(queue.results)} == {1}
    assert (queue.waiting(), queue.totals().taken.keys) == ([], 6)


@pytest.mark.chaos
def test_workers_go_on_when_the_leader_of_three_members_is_killed(
    tmp_path: Path, name: str
) -> None:
    cluster = EtcdCluster(tmp_path).start()
    try:
        with BlockingClient(cluster.config()) as etcd:
            endpoints = ",".join(member.endpoint for member in cluster.members)
            queue = TestQueue(etcd, endpoints, f"/{name}")
            queue.publish(6000, SLOTS)
            with Worker(queue.address, ClaimOptions(lease_s=5, workers=2)) as worker:
                working = threading.Thread(
                    target=worker.work, args=(lambda each: results(queue, [each]),)
                )
                working.start()
                wait_until(lambda: queue.count(queue.results) > 500)
                etcd.run(cluster.leader).kill()
                wait_until(lambda: queue.count(queue.layout.messages) == 0, within=60)
                worker.stop()
                working.join(20)
            settled_once(queue, 6000)
    finally:
        cluster.kill()
