"""The collector's own talk with a queue in etcd: what it holds, takes out and tells. No Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from nexus.pipeline.collector import etcd_side
from nexus.pipeline.collector.etcd_side import EtcdSide
from nexus.pipeline.collector.metrics import CollectorRegistry
from nexus.pipeline.collector.progress import Held, Progress
from nexus.pipeline.collector.report import status_of
from nexus.queue.errors import QueueAway
from nexus.queue.etcd.identity import identity
from nexus.queue.etcd.layout import Slot
from nexus.queue.etcd.lead import QueueTaken
from nexus.queue.etcd.positions import Position, Positions
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.settings.collector import CollectorSection
from support.etcd import EtcdMember
from support.hand_queue import HandQueue
from support.published import Sent
from support.views import HandClock, running
from support.waiting import wait_until

ONE, OTHER = "delta:///one", "delta:///other"
A = Slot("east", 0)
JSON: list[Sent] = [(b'{"n": 1}', [("content-type", b"application/json")])]


@pytest.fixture
def queue(etcd: EtcdMember, name: str) -> Iterator[HandQueue]:
    with HandQueue(etcd, f"/{name}") as made:
        yield made


class Run:
    """A collector as its side sees it."""

    def __init__(self, queue: HandQueue, *stores: str, name: str = "c0") -> None:
        self.queue = queue
        url = parse_queue_url(queue.url)
        assert isinstance(url, EtcdUrl)
        self.progress: Progress = running(HandClock(), *(stores or (ONE,)))
        own = CollectorSection(queue=queue.url, collector_id=name)
        self.side = EtcdSide(url, own, self.progress)
        self.told: list[str] = []

    def start(self) -> Run:
        assert self.side.hold(lambda: False, self.told.append, self.told.append)
        assert self.side.wait(lambda: False, self.told.append)
        self.side.start()
        return self

    def commit(self, store: str, upto: int) -> None:
        """Spark says that a batch is in a store."""
        queue = self.queue.etcd.run(lambda client: identity(client, self.queue.layout))
        place = Positions(0, {A: Position(upto)}, queue).to_json()
        self.progress.reached(store, 0, {}, {}, place)
        self.side.done()

    @property
    def held(self) -> Held:
        held = self.progress.view().held
        assert held is not None
        return held


@pytest.fixture
def run(queue: HandQueue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(etcd_side, "LOOK_S", 0.1)
    monkeypatch.setattr(etcd_side, "COUNT_S", 0.1)
    made = Run(queue, ONE, OTHER)
    yield made
    made.side.stop()


def test_a_message_is_taken_out_when_every_store_has_it(queue: HandQueue, run: Run) -> None:
    put = queue.put(A, JSON * 5)
    run.start()
    wait_until(lambda: run.held.waiting == {0: 5}, what="what waits is told")
    assert run.progress.view().lag == 5
    run.commit(ONE, put[-1].mod_revision)
    assert len(queue.waiting()) == 5
    run.commit(OTHER, put[-1].mod_revision)
    wait_until(lambda: not queue.waiting(), what="an empty queue")
    wait_until(lambda: run.held.waiting == {0: 0}, what="that is told")
    assert run.held.taken == 5
    assert run.held.quota_bytes > run.held.db_bytes > 0


def test_what_the_last_batch_came_to_is_taken_out_at_the_end(queue: HandQueue, run: Run) -> None:
    put = queue.put(A, JSON * 5)
    run.start()
    for store in (ONE, OTHER):
        run.commit(store, put[-1].mod_revision)
    run.side.stop()
    assert queue.waiting() == []
    assert queue.etcd.get(queue.layout.meta("collectors", "all")) is None, "another may lead"


def test_a_message_that_expires_is_told_of(
    queue: HandQueue, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    lease = queue.etcd.run(lambda client: client.leases.grant(60))
    queue.put(A, JSON * 3, lease=lease.id)
    run.start()
    with caplog.at_level(logging.WARNING):
        queue.etcd.run(lambda client: client.leases.revoke(lease))
        wait_until(lambda: run.held.expired == 3, what="that is counted")
    assert "expired before they were collected" in caplog.text
    status = status_of(run.progress.view())["queue"]
    assert status["expired_messages"] == 3
    text = CollectorRegistry(run.progress.view).render().decode()
    assert "nexus_collector_queue_expired_messages_total 3.0" in text
    assert "nexus_collector_queue_depth_messages 0.0" in text


def test_keys_beside_the_slots_are_brought_into_one(queue: HandQueue, run: Run) -> None:
    run.start()
    queue.put_raw(queue.layout.prefix.encode() + b"/by-hand", b'{"n": 1}')
    wait_until(lambda: sum(run.held.waiting.values()) == 1, what="it is found")
    (key,) = queue.waiting()
    assert queue.layout.slot_of_key(key.key) is not None


def test_one_that_lost_the_lead_stores_nothing_more(queue: HandQueue, run: Run) -> None:
    run.start()
    run.side.guard()
    other = Run(queue, ONE, name="c1")
    queue.etcd.delete(queue.layout.meta("collectors", "all"))
    assert other.side.hold(lambda: False, other.told.append, other.told.append)
    with pytest.raises(QueueAway):
        run.side.guard()
    wait_until(lambda: _is_taken(run), within=15, what="it hears of the other")
    other.side.stop()


def _is_taken(run: Run) -> bool:
    try:
        run.side.check()
    except QueueTaken as taken:
        return "c1" in str(taken)
    return False


def test_one_that_waits_for_its_turn_ends_when_told(queue: HandQueue, run: Run) -> None:
    run.start()
    second = Run(queue, name="c1")
    stopped = iter([False] * 10 + [True] * 100)
    assert not second.side.hold(lambda: next(stopped), second.told.append, second.told.append)
    assert second.told[-1].startswith("c0 collects from etcd://")
    second.side.stop()
