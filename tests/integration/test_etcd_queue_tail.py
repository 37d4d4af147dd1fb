"""Looking on at a queue in etcd: what comes from now on, whatever happens to etcd meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueError
from nexus.queue.etcd import tail as tail_module
from nexus.queue.etcd.tail import EtcdTail
from nexus.queue.opening import open_reader, open_tail
from nexus.queue.port import Received
from nexus.queue.publishing import PublisherOptions
from support.etcd import EtcdMember
from support.etcd_publishing import PARTITIONS, Sender, etcd_url
from support.ports import free_port
from support.waiting import wait_until

OPTIONS = PublisherOptions(partitions=PARTITIONS, cluster="c1")


@pytest.fixture
def member(tmp_path: Path) -> Iterator[EtcdMember]:
    etcd = EtcdMember(tmp_path).start()
    yield etcd
    etcd.kill()


@pytest.fixture
def opened(member: EtcdMember) -> Iterator[tuple[Sender, EtcdTail]]:
    url = etcd_url(f"etcd://{member.endpoint}/q")
    sender = Sender(url, OPTIONS)
    sender.send(range(8))  # before the tail
    sender.wait(1)
    tail = EtcdTail(url, patience_s=0.3)
    yield sender, tail
    tail.close()
    sender.publisher.close()


def polled(tail: EtcdTail, enough: Callable[[list[Received]], bool]) -> list[Received]:
    found: list[Received] = []

    def is_enough() -> bool:
        found.extend(tail.poll(0.2))
        return enough(found)

    wait_until(is_enough, what="messages")
    return found


def numbers(messages: list[Received]) -> list[int]:
    return [orjson.loads(message.value)["n"] for message in messages]


def test_it_shows_what_comes_from_now_on_in_order(opened: tuple[Sender, EtcdTail]) -> None:
    sender, tail = opened
    began = tail.positions()
    assert set(began) == set(range(PARTITIONS))
    now_ms = time.time_ns() // 1_000_000
    sender.send(range(100, 500))
    found = polled(tail, lambda messages: len(messages) >= 400)
    assert sorted(numbers(found)) == list(range(100, 500))
    for partition in range(PARTITIONS):
        own = [message for message in found if message.partition == partition]
        assert numbers(own) == list(range(100 + partition, 500, PARTITIONS))
        assert [m.offset for m in own] == sorted(m.offset for m in own)
        assert own[0].offset >= began[partition]
        assert tail.positions()[partition] > own[-1].offset
    assert all(abs(message.timestamp_ms - now_ms) < 60_000 for message in found)
    assert dict(found[0].headers) == {"content-type": b"application/json"}


def test_packed_messages_come_one_by_one(member: EtcdMember, opened: object) -> None:
    url = etcd_url(f"etcd://{member.endpoint}/q?form=packed")
    sender, tail = Sender(url, OPTIONS), open_tail(str(url))
    assert isinstance(tail, EtcdTail)
    try:
        sender.send(range(50))
        found = polled(tail, lambda messages: len(messages) >= 50)
        assert sorted(numbers(found)) == list(range(50))
        assert {message.key for message in found} == {f"GPU-{n}".encode() for n in range(8)}
    finally:
        tail.close()
        sender.publisher.close()


def test_deletions_and_loose_keys_are_no_messages(
    member: EtcdMember, opened: tuple[Sender, EtcdTail]
) -> None:
    sender, tail = opened
    with BlockingClient(member.config()) as etcd:
        etcd.delete(sender.url.layout.messages)
        etcd.put(b"/q/loose", b"{}")
    sender.send([77])
    assert numbers(polled(tail, bool)) == [77]


def test_it_goes_on_where_it_was_when_etcd_comes_back(
    member: EtcdMember, opened: tuple[Sender, EtcdTail]
) -> None:
    sender, tail = opened
    member.kill()
    wait_until(lambda: not tail.poll(0.1) and tail.problem, what="a problem")
    member.start()
    sender.send(range(40))
    found = polled(tail, lambda messages: len(messages) >= 40)
    assert sorted(numbers(found)) == list(range(40))
    assert tail.problem == ""
    assert tail.skipped == 0


def test_whoever_falls_behind_skips_to_the_end_and_counts(
    opened: tuple[Sender, EtcdTail],
) -> None:
    sender, tail = opened
    seen = 0
    for batch in range(30):  # one poll where many would be needed
        sender.send(range(batch * 400, (batch + 1) * 400))
        sender.wait(2 + batch)
        seen += len(tail.poll(0))
        time.sleep(0.05)
        if tail.skipped:
            break
    assert tail.skipped > 0
    sent = 400 * (len(sender.outcomes) - 1)
    sender.send([9999])
    last = polled(tail, lambda messages: 9999 in numbers(messages))
    assert abs(seen + tail.skipped + len(last) - 1 - sent) <= 800


def test_an_etcd_that_is_away_is_a_problem_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "_OPEN_S", 0.3)
    tail = EtcdTail(etcd_url(f"etcd://127.0.0.1:{free_port()}/q"))
    try:
        assert list(tail.poll(0.01)) == []
        assert "etcd" in tail.problem
        assert tail.positions() == {}
    finally:
        tail.close()
    assert list(tail.poll(1)) == []


def test_a_queue_in_etcd_has_no_reader_of_offsets() -> None:
    with pytest.raises(QueueError, match="no offsets"):
        open_reader("etcd://127.0.0.1:1/q")
