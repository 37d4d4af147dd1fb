"""What one client writes, every client reads: keys, null values, headers and every compression."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TopicPartition

from support.broker import BrokerProcess
from support.confluent import consumer_of, deliver, error_names, poll_for, producer_of, read, send
from support.exchange import READERS, SENDERS, Item
from support.fixtures import MakeTopic
from support.needs import need_program
from support.wirelog import stored_batches

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
HEADERS = (("content-type", b"text/plain"), ("source", b"test"))


def items_of(sender: str) -> list[Item]:
    """Thirty messages that compress well, with a null key and a null value among them."""
    text = b"gpu telemetry " * 12
    plain = [Item(b"k%d" % n, b"%s %d %s" % (sender.encode(), n, text), HEADERS) for n in range(28)]
    return [*plain, Item(None, b"no key " + text, HEADERS), Item(b"tombstone", None, HEADERS)]


def test_every_client_reads_what_every_client_wrote(broker: BrokerProcess, topic: str) -> None:
    need_program("kcat")
    written: list[Item] = []
    for (sender, send_items), codec in zip(SENDERS.items(), CODECS[1:], strict=True):
        send_items(broker.bootstrap, topic, items_of(sender), codec)
        written += items_of(sender)

    for reader, read_items in READERS.items():
        assert read_items(broker.bootstrap, topic, len(written)) == written, reader


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_every_compression(
    broker: BrokerProcess, topic: str, codec: str
) -> None:
    need_program("kcat")
    written: list[Item] = []
    for sender, send_items in SENDERS.items():
        send_items(broker.bootstrap, topic, items_of(sender), codec)
        written += items_of(sender)

    for reader, read_items in READERS.items():
        assert read_items(broker.bootstrap, topic, len(written)) == written, reader
    # Nobody quietly stopped compressing, and the broker kept the batches as they came.
    assert {batch.codec for batch in stored_batches(broker.data_dir, topic)} == {codec}


@pytest.mark.parametrize("sender", SENDERS)
def test_a_topic_may_recompress_what_it_is_sent(
    broker: BrokerProcess, make_topic: MakeTopic, sender: str
) -> None:
    need_program("kcat")
    topic = make_topic(**{"compression.type": "zstd"})
    SENDERS[sender](broker.bootstrap, topic, items_of(sender), "gzip")
    assert READERS["confluent"](broker.bootstrap, topic, 30) == items_of(sender)
    assert {batch.codec for batch in stored_batches(broker.data_dir, topic)} == {"zstd"}


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_every_kind_of_recompression_reads_back(
    broker: BrokerProcess, make_topic: MakeTopic, codec: str
) -> None:
    topic = make_topic(**{"compression.type": codec})
    for number, sent_as in enumerate(CODECS):
        SENDERS["confluent"](broker.bootstrap, topic, items_of(str(number)), sent_as)
    expected = [item for number in range(len(CODECS)) for item in items_of(str(number))]
    assert READERS["confluent"](broker.bootstrap, topic, len(expected)) == expected
    stored = {batch.codec for batch in stored_batches(broker.data_dir, topic)}
    assert stored == {"none" if codec == "uncompressed" else codec}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(broker: BrokerProcess, topic: str, acks: str) -> None:
    # Once this one is there, so is the leader: nothing else is promised to who wants no answer.
    send(broker.bootstrap, topic, [b"first"])
    reports = deliver(producer_of(broker.bootstrap, acks=acks), topic, [b"a", b"b"], partition=0)
    assert error_names(reports) == set()
    assert [m.value() for m in read(broker.bootstrap, topic, 3)] == [b"first", b"a", b"b"]


def test_producing_to_an_unknown_topic_creates_it(broker: BrokerProcess, name: str) -> None:
    send(broker.bootstrap, name, [b"first"])
    assert [m.value() for m in read(broker.bootstrap, name, 1)] == [b"first"]


def test_headers_keep_their_order_repeats_and_nulls(broker: BrokerProcess, topic: str) -> None:
    headers: list[tuple[str, str | bytes | None]] = [
        ("a", b"1"),
        ("b", None),
        ("a", b"2"),
        ("empty", b""),
    ]
    producer = producer_of(broker.bootstrap)
    producer.produce(topic, b"v", partition=0, headers=headers)
    assert error_names(deliver(producer, topic, [])) == set()
    assert read(broker.bootstrap, topic, 1)[0].headers() == headers


def test_a_message_of_one_megabyte_goes_through(broker: BrokerProcess, topic: str) -> None:
    value = bytes(range(256)) * 3900  # 998,400 bytes: under the default limit with its overhead
    send(broker.bootstrap, topic, [value], **{"message.max.bytes": 2_000_000})
    assert read(broker.bootstrap, topic, 1)[0].value() == value


def test_reading_goes_on_from_any_offset_inside_a_batch(broker: BrokerProcess, topic: str) -> None:
    values = [b"%d" % n for n in range(50)]
    send(broker.bootstrap, topic, values, **{"linger.ms": 50})
    for offset in (0, 1, 24, 49):
        found = read(broker.bootstrap, topic, 50 - offset, offset=offset)
        assert [m.value() for m in found] == values[offset:]


def test_many_partitions_are_written_and_read(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=64)
    producer = producer_of(broker.bootstrap)
    for partition in range(64):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert error_names(deliver(producer, topic, [])) == set()

    consumer = consumer_of(broker.bootstrap)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(64)])
    found = {(m.partition(), m.value()) for m in poll_for(consumer, 64)}
    consumer.close()
    assert found == {(partition, b"%d" % partition) for partition in range(64)}


def test_a_waiting_fetch_returns_when_data_arrives(broker: BrokerProcess, topic: str) -> None:
    """The fetch may wait a minute; the message must not."""
    waiting = {"fetch.wait.max.ms": 60_000, "socket.timeout.ms": 90_000, "fetch.min.bytes": 1}
    consumer = consumer_of(broker.bootstrap, **waiting)
    producer = producer_of(broker.bootstrap)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert deliver(producer, topic, [b"warm"], partition=0)[0][0] is None
        poll_for(consumer, 1)
        began = time.monotonic()
        for n in range(5):
            assert deliver(producer, topic, [b"%d" % n], partition=0)[0][0] is None
            poll_for(consumer, 1)
        assert time.monotonic() - began < 50
    finally:
        consumer.close()


def test_timestamps_are_the_producers_unless_the_topic_says_otherwise(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    created, appended = make_topic(), make_topic(**{"message.timestamp.type": "LogAppendTime"})
    hour_ago = int(time.time() * 1000) - 3_600_000
    for topic in (created, appended):
        producer = producer_of(broker.bootstrap)
        producer.produce(topic, b"v", partition=0, timestamp=hour_ago)
        assert error_names(deliver(producer, topic, [])) == set()

    assert read(broker.bootstrap, created, 1)[0].timestamp() == (1, hour_ago)
    kind, stamped = read(broker.bootstrap, appended, 1)[0].timestamp()
    assert kind == 2
    assert abs(stamped - time.time() * 1000) < 60_000
