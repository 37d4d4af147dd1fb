"""The Kafka reader against our broker: ranges come whole and in order, or an error says why not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewPartitions

from nexus.queue.errors import (
    OffsetsGone,
    OffsetsMissing,
    QueueAway,
    QueueError,
    TopicMissing,
)
from nexus.queue.opening import open_reader
from nexus.queue.port import Bounds, Reader
from support.broker import BrokerProcess
from support.confluent import admin_of, consumer_of, create_topic, deliver, producer_of, send
from support.fixtures import MakeBroker, MakeTopic
from support.ports import free_port
from support.waiting import wait_until

Open = Callable[..., Reader]
KEPT = {"retention.ms": "-1"}


@pytest.fixture
def open_queue() -> Iterator[Open]:
    made: list[Reader] = []

    def make(bootstrap: str, topic: str, **options: Any) -> Reader:
        made.append(open_reader(f"kafka://{bootstrap}/{topic}", **{"timeout_s": 20} | options))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


def offsets(reader: Reader, start: int, end: int, partition: int = 0) -> list[int]:
    return [n for batch in reader.read(partition, start, end) for n in batch.offsets()]


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    admin = admin_of(bootstrap)
    (asked,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    asked.result(10)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    admin = admin_of(bootstrap)
    asked = [ConsumerGroupTopicPartitions(group)]
    answer = admin.list_consumer_group_offsets(asked)[group].result(10)
    return {place.partition: place.offset for place in answer.topic_partitions}


def test_a_range_is_read_whole_and_in_order(
    open_queue: Open, broker: BrokerProcess, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"%d" % n for n in range(5000)])
    reader = open_queue(broker.bootstrap, topic)
    for start, end in [(0, 5000), (17, 4321), (4999, 5000), (0, 1), (2000, 2000), (3000, 3010)]:
        found = [value for batch in reader.read(0, start, end) for value in batch.values()]
        assert found == [b"%d" % n for n in range(start, end)]


def test_a_message_comes_with_all_it_has(
    open_queue: Open, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(**KEPT)
    producer = producer_of(broker.bootstrap)
    headers = [("content-type", b"application/json"), ("empty", b"")]
    deliver(producer, topic, [b"{}"], partition=0, key=b"k", headers=headers, timestamp=1234)
    deliver(producer, topic, [None], partition=0, timestamp=1235)
    reader = open_queue(broker.bootstrap, topic)
    first, second = [message for batch in reader.read(0, 0, 2) for message in batch]
    assert first == (0, 0, 1234, b"k", b"{}", tuple(headers))
    assert second == (0, 1, 1235, None, b"", ())


def test_it_says_which_partitions_there_are_and_what_they_hold(
    open_queue: Open, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    send(broker.bootstrap, topic, [b"x"] * 10)
    delete_before(broker.bootstrap, topic, 4)
    reader = open_queue(broker.bootstrap, topic)
    assert list(reader.partitions()) == [0, 1, 2]
    assert reader.bounds() == {0: Bounds(4, 10), 1: Bounds(0, 0), 2: Bounds(0, 0)}
    assert reader.bounds([0]) == {0: Bounds(4, 10)}
    with pytest.raises(TopicMissing, match="no partition 7; it has 3"):
        reader.bounds([1, 7])


def test_partitions_added_later_are_seen(
    open_queue: Open, broker: BrokerProcess, topic: str
) -> None:
    reader = open_queue(broker.bootstrap, topic)
    assert list(reader.partitions()) == [0]
    admin = admin_of(broker.bootstrap)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
    assert list(reader.partitions()) == [0, 1, 2]
    assert set(reader.bounds()) == {0, 1, 2}


def test_a_time_is_found(open_queue: Open, broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(2, **KEPT)
    for n in range(5):
        deliver(producer_of(broker.bootstrap), topic, [b"x"], partition=0, timestamp=1000 + 10 * n)
    reader = open_queue(broker.bootstrap, topic)
    found = {at: reader.offsets_at(at) for at in (0, 1010, 1011, 1041)}
    assert found == {0: {0: 0, 1: 0}, 1010: {0: 1, 1: 0}, 1011: {0: 2, 1: 0}, 1041: {0: 5, 1: 0}}


def test_one_message_is_cheap_to_see(
    open_queue: Open, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    large = b"x" * 400_000
    send(broker.bootstrap, topic, [b"a", large, b"b", large, b"c"])
    deliver(producer_of(broker.bootstrap), topic, [b"other"], partition=2)
    reader = open_queue(broker.bootstrap, topic)
    seen = [reader.sample(0, n) for n in range(6)]
    assert [m and (m.offset, m.value) for m in seen] == [
        (0, b"a"), (1, large), (2, b"b"), (3, large), (4, b"c"), None,
    ]  # fmt: skip
    both = reader.samples({0: 4, 1: 0, 2: 0})
    assert {p: m.value for p, m in both.items()} == {0: b"c", 2: b"other"}
    delete_before(broker.bootstrap, topic, 4)
    first = reader.sample(0, 1)
    assert first is not None
    assert first.offset == 4


def test_messages_that_were_removed_are_an_error(
    open_queue: Open, broker: BrokerProcess, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"x"] * 20)
    delete_before(broker.bootstrap, topic, 8)
    reader = open_queue(broker.bootstrap, topic)
    with pytest.raises(OffsetsGone, match="offsets 3 to 7 were removed") as caught:
        offsets(reader, 3, 15)
    assert (caught.value.partition, caught.value.first) == (0, 8)
    assert offsets(reader, 8, 15) == list(range(8, 15))


def test_messages_removed_while_they_are_read_are_an_error(
    open_queue: Open, broker: BrokerProcess, topic: str
) -> None:
    """More than the client holds ready, so that it must ask again."""
    send(broker.bootstrap, topic, [b"x" * 500_000] * 90)
    batches = open_queue(broker.bootstrap, topic).read(0, 0, 90)
    seen = next(batches).offsets()
    delete_before(broker.bootstrap, topic, 85)
    with pytest.raises(OffsetsGone) as caught:
        seen.extend(offset for batch in batches for offset in batch.offsets())
    assert seen == list(range(len(seen)))
    assert (caught.value.start, caught.value.first) == (len(seen), 85)


def test_a_slow_reader_holds_little(open_queue: Open, broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"x" * 500_000] * 90)
    held: list[int] = []

    def keep(said: str) -> None:
        topics = json.loads(said)["topics"].values()
        held.append(sum(p["fetchq_size"] for t in topics for p in t["partitions"].values()))

    settings = {"statistics.interval.ms": 5, "stats_cb": keep}
    largest = 0
    for batch in open_queue(broker.bootstrap, topic, client=settings).read(0, 0, 90):
        largest = max(largest, sum(map(len, batch.values())))
        time.sleep(0.05)
    assert 4 << 20 < max(held) < 24 << 20
    assert largest < 24 << 20


def test_a_compacted_log_is_read_without_what_it_lost(
    open_queue: Open, make_broker: MakeBroker, name: str
) -> None:
    cleaner = make_broker(settings="storage: {retention_check_interval: 50ms}")
    bootstrap = cleaner.bootstrap
    policy = {
        "cleanup.policy": "compact",
        "segment.bytes": "4096",
        "min.cleanable.dirty.ratio": "0.01",
    }
    create_topic(admin_of(bootstrap), name, configs=policy)
    producer = producer_of(bootstrap, **{"batch.num.messages": 5})
    for n in range(600):
        producer.produce(name, b"%d" % n, b"key-%d" % (n % 3), partition=0)
    assert producer.flush(20) == 0
    reader = open_queue(bootstrap, name)
    wait_until(lambda: offsets(reader, 0, 600)[0] > 100, within=20, what="compaction")
    cleaner.settings = "storage: {retention_check_interval: 1h}"
    cleaner.restart()
    found = offsets(reader, 0, 600)
    assert found[-1] == 599
    assert found == sorted(set(found))
    # A range may begin and end where nothing is left.
    assert offsets(reader, 1, 90) == []
    assert offsets(reader, 1, found[1]) == found[:1]
    assert offsets(reader, found[1], 600) == found[1:]


def test_a_broker_may_restart_while_it_is_read(
    open_queue: Open, own_broker: BrokerProcess, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    send(own_broker.bootstrap, name, [b"x" * 200_000] * 200)
    reader = open_queue(own_broker.bootstrap, name)
    batches = reader.read(0, 0, 200)
    seen = next(batches).offsets()
    own_broker.kill()
    restart = threading.Timer(0.3, own_broker.start)
    restart.start()
    for batch in batches:
        seen += batch.offsets()
    restart.join()
    assert seen == list(range(200))
    assert reader.bounds() == {0: Bounds(0, 200)}


def test_a_broker_that_is_away_is_told_after_the_time_out(
    open_queue: Open, own_broker: BrokerProcess, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    send(own_broker.bootstrap, name, [b"x"] * 10)
    reader = open_queue(own_broker.bootstrap, name, timeout_s=0.3)
    assert offsets(reader, 0, 5) == list(range(5))
    reader.commit("g", {0: 1})
    own_broker.stop()
    questions: list[Callable[[], object]] = [
        reader.partitions,
        reader.bounds,
        lambda: reader.offsets_at(0),
        lambda: offsets(reader, 0, 5),
        lambda: reader.sample(0, 0),
        lambda: reader.commit("g", {0: 2}),
    ]
    for question in questions:
        with pytest.raises(QueueAway, match=own_broker.bootstrap):
            question()
    own_broker.start()
    wait_until(lambda: comes_back(reader), what="the reader to find the broker again")
    reader.commit("g", {0: 3})
    assert committed(own_broker.bootstrap, "g") == {0: 3}


def comes_back(reader: Reader) -> bool:
    try:
        return offsets(reader, 0, 10) == list(range(10))
    except QueueAway:
        return False


def test_nobody_there_is_told() -> None:
    reader = open_reader(f"kafka://127.0.0.1:{free_port()}/t", timeout_s=0.3)
    with pytest.raises(QueueAway, match="no broker answers"):
        reader.partitions()
    reader.close()


def test_a_topic_that_is_missing_is_told_with_what_to_do_and_not_made(
    open_queue: Open, broker: BrokerProcess, name: str
) -> None:
    reader = open_queue(broker.bootstrap, name, timeout_s=0.3)
    for question in (reader.partitions, reader.bounds, lambda: offsets(reader, 0, 5)):
        with pytest.raises(TopicMissing, match=f"nexus topics create {name}"):
            question()
    assert name not in admin_of(broker.bootstrap).list_topics(timeout=5).topics
    create_topic(admin_of(broker.bootstrap), name)
    assert reader.bounds() == {0: Bounds(0, 0)}


def test_a_partition_that_ends_too_early_is_an_error(
    open_queue: Open, broker: BrokerProcess, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"x"] * 10)
    reader = open_queue(broker.bootstrap, topic, timeout_s=0.3)
    with pytest.raises(OffsetsMissing, match="ends at offset 10, but had offset 11"):
        offsets(reader, 5, 12)
    with pytest.raises(OffsetsMissing, match="made again"):
        offsets(reader, 50, 60)


def test_a_range_beyond_the_end_is_waited_for(
    open_queue: Open, broker: BrokerProcess, topic: str
) -> None:
    """A leader that has just changed may know less than the one before, for a moment."""
    send(broker.bootstrap, topic, [b"x"] * 5)
    later = threading.Timer(0.3, send, [broker.bootstrap, topic, [b"x"] * 5])
    later.start()
    assert offsets(open_queue(broker.bootstrap, topic), 0, 10) == list(range(10))
    later.join()


def test_progress_is_committed_without_joining_the_group(
    open_queue: Open, broker: BrokerProcess, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(2)
    reader = open_queue(broker.bootstrap, topic)
    for n in range(1, 4):
        reader.commit(name, {0: n, 1: 10 * n})
        assert committed(broker.bootstrap, name) == {0: n, 1: 10 * n}
    reader.commit(name, {})
    admin = admin_of(broker.bootstrap)
    described = admin.describe_consumer_groups([name])[name].result(10)
    assert (described.state.name, list(described.members)) == ("EMPTY", [])


def test_the_offsets_of_a_group_with_members_are_theirs(
    open_queue: Open, broker: BrokerProcess, topic: str, name: str
) -> None:
    member = consumer_of(broker.bootstrap, **{"group.id": name})
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) or member.assignment(), what="a member of the group")
    with pytest.raises(QueueError, match="members of its own"):
        open_queue(broker.bootstrap, topic).commit(name, {0: 1})
    member.close()


def test_ranges_may_be_read_side_by_side_and_left_unfinished(
    open_queue: Open, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(4)
    producer = producer_of(broker.bootstrap)
    for partition in range(4):
        deliver(producer, topic, [b"%d" % partition] * 3000, partition=partition)
    reader = open_queue(broker.bootstrap, topic)
    unfinished = [reader.read(partition, 0, 3000) for partition in range(4)]
    for partition, batches in enumerate(unfinished):
        assert set(next(batches).values()) == {b"%d" % partition}

    def whole(partition: int) -> bool:
        messages = [m for batch in reader.read(partition, 5, 2995) for m in batch]
        assert {m.value for m in messages} == {b"%d" % partition}
        return [m.offset for m in messages] == list(range(5, 2995))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(whole, [0, 1, 2, 3] * 4))
    for batches in unfinished:
        batches.close()  # type: ignore[attr-defined] # a generator
    assert whole(0)


def test_what_is_closed_stays_closed(open_queue: Open, broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"x"] * 10)
    reader = open_queue(broker.bootstrap, topic)
    assert offsets(reader, 0, 10) == list(range(10))
    before = threads()
    reader.close()
    reader.close()
    wait_until(lambda: threads() < before, what="the client's threads to end")


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))
