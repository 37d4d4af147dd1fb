"""The Kafka reader against a cluster that is not ours: librdkafka's mock, several brokers of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from nexus.queue.errors import OffsetsGone, QueueAway, QueueError, TopicMissing
from nexus.queue.opening import open_reader
from nexus.queue.port import Bounds, Reader
from support import rawwire
from support.confluent import admin_of, deliver, producer_of, send
from support.mock_cluster import FETCH, LIST_OFFSETS, MockCluster, mock_cluster

TOPIC = "readings"
COUNT = 400
CONTROL = 0x30  # a batch that ends a transaction
TRANSIENT = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Three brokers, each of which leads a partition."""
    with mock_cluster(3) as made:
        made.create_topic(TOPIC, 3)
        yield made


@pytest.fixture
def filled(cluster: MockCluster) -> MockCluster:
    producer = producer_of(cluster.bootstrap)
    for partition in range(3):
        values = [b"%d" % (1000 * partition + n) for n in range(COUNT)]
        deliver(producer, TOPIC, values, partition=partition)
    return cluster


@pytest.fixture
def reader(cluster: MockCluster) -> Iterator[Reader]:
    made = open_reader(f"kafka://{cluster.bootstrap}/{TOPIC}", timeout_s=10)
    yield made
    made.close()


@pytest.fixture
def hasty(cluster: MockCluster) -> Iterator[Reader]:
    made = open_reader(f"kafka://{cluster.bootstrap}/{TOPIC}", timeout_s=0.3)
    yield made
    made.close()


def numbers(reader: Reader, partition: int, start: int, end: int) -> list[int]:
    return [int(v) for batch in reader.read(partition, start, end) for v in batch.values()]


def test_partitions_on_several_brokers_are_read(filled: MockCluster, reader: Reader) -> None:
    assert reader.bounds() == dict.fromkeys(range(3), Bounds(0, COUNT))
    for partition in (0, 2, 1, 0):
        first = 1000 * partition
        assert numbers(reader, partition, 10, COUNT) == list(range(first + 10, first + COUNT))
    seen = reader.samples({0: 5, 1: COUNT - 1, 2: COUNT})
    assert {p: m.value for p, m in seen.items()} == {0: b"5", 1: b"%d" % (1000 + COUNT - 1)}


def test_a_partition_may_move_to_another_broker(filled: MockCluster, reader: Reader) -> None:
    assert numbers(reader, 0, 0, 100) == list(range(100))
    for broker in (3, 2):  # one of them is another
        filled.set_leader(TOPIC, 0, broker)
        assert numbers(reader, 0, 0, COUNT) == list(range(COUNT))
    assert reader.bounds([0]) == {0: Bounds(0, COUNT)}


def test_a_partition_that_nobody_leads_is_told_and_the_others_go_on(
    filled: MockCluster, hasty: Reader
) -> None:
    filled.set_leader(TOPIC, 1, None)
    assert list(hasty.partitions()) == [0, 1, 2]
    with pytest.raises(QueueAway, match="no broker leads partition 1 now"):
        hasty.bounds()
    with pytest.raises(QueueAway, match="no broker leads partition 1 now"):
        numbers(hasty, 1, 0, 5)
    assert hasty.bounds([0, 2]) == {0: Bounds(0, COUNT), 2: Bounds(0, COUNT)}
    assert numbers(hasty, 2, 0, 2) == [2000, 2001]
    filled.set_leader(TOPIC, 1, 3)
    assert numbers(hasty, 1, 0, 2) == [1000, 1001]


def test_a_broker_that_is_down_is_told_and_the_others_go_on(
    filled: MockCluster, hasty: Reader
) -> None:
    filled.set_leader(TOPIC, 1, 2)
    filled.down(2)
    for partitions in ([0, 1], [1]):
        with pytest.raises(QueueAway, match="broker 2, which leads partition 1, does not answer"):
            hasty.bounds(partitions)
    with pytest.raises(QueueAway, match="broker 2, which leads partition 1, does not answer"):
        numbers(hasty, 1, 0, 5)
    filled.set_leader(TOPIC, 0, 1)
    assert numbers(hasty, 0, 0, 2) == [0, 1]


@pytest.mark.parametrize("code", TRANSIENT)
def test_errors_that_pass_are_not_seen(filled: MockCluster, reader: Reader, code: int) -> None:
    filled.fail_next(FETCH, code, code)
    assert numbers(reader, 0, 0, COUNT) == list(range(COUNT))
    filled.fail_next(LIST_OFFSETS, code, code)
    assert reader.bounds([0]) == {0: Bounds(0, COUNT)}


def test_a_right_that_is_missing_is_told_at_once(filled: MockCluster, reader: Reader) -> None:
    filled.fail_next(FETCH, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3)
    with pytest.raises(QueueError, match="authorization failed") as caught:
        numbers(reader, 0, 0, COUNT)
    assert not isinstance(caught.value, QueueAway)


def test_offsets_that_were_removed_are_an_error(filled: MockCluster, reader: Reader) -> None:
    filled.delete_records(TOPIC, 0, 100)
    with pytest.raises(OffsetsGone) as caught:
        numbers(reader, 0, 40, COUNT)
    assert (caught.value.start, caught.value.first) == (40, 100)
    assert numbers(reader, 0, 100, 110) == list(range(100, 110))


def test_the_marks_of_transactions_are_passed_over() -> None:
    with mock_cluster(1) as cluster:
        cluster.create_topic(TOPIC)
        for value in (b"0", b"2"):
            send(cluster.bootstrap, TOPIC, [value])
            end_transaction(cluster)
        reader = open_reader(f"kafka://{cluster.bootstrap}/{TOPIC}", timeout_s=10)
        assert reader.bounds() == {0: Bounds(0, 4)}
        ranges = [(0, 4), (0, 2), (1, 2), (1, 3), (3, 4)]
        assert [numbers(reader, 0, *r) for r in ranges] == [[0, 2], [0], [], [2], []]
        assert reader.sample(0, 3) is None
        reader.close()


def end_transaction(cluster: MockCluster) -> None:
    committed = rawwire.record(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, 1))
    port = int(cluster.bootstrap.rpartition(":")[2])
    with rawwire.RawConnection(port) as connection:
        batch = rawwire.batch(committed, attributes=CONTROL)
        code, _ = rawwire.produce(connection, TOPIC, batch)
        assert code == 0


def test_a_topic_that_is_missing_is_told_with_what_to_do(cluster: MockCluster) -> None:
    reader = open_reader(f"kafka://{cluster.bootstrap}/other", timeout_s=0.3)
    with pytest.raises(TopicMissing, match="nexus topics create other"):
        reader.bounds()
    reader.close()


def test_progress_is_committed(filled: MockCluster, reader: Reader) -> None:
    reader.commit("collector", {0: 7, 2: 9})
    admin = admin_of(filled.bootstrap)
    places = [TopicPartition(TOPIC, partition) for partition in (0, 2)]
    asked = [ConsumerGroupTopicPartitions("collector", places)]
    answer = admin.list_consumer_group_offsets(asked)["collector"].result(10)
    found = {place.partition: place.offset for place in answer.topic_partitions}
    assert found == {0: 7, 2: 9}
