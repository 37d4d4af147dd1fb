"""Finding offsets by time, and committed offsets with their metadata, across clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.structs import OffsetAndMetadata as AioOffsetAndMetadata
from confluent_kafka import KafkaException, TopicPartition
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as PyTopicPartition

from support.broker import BrokerProcess
from support.confluent import consumer_of, deliver, error_names, producer_of, read, watermarks
from support.exchange import kcat
from support.fixtures import MakeTopic
from support.needs import need_program

STAMPS = [1_700_000_000_000 + n * 1000 for n in range(20)]
BETWEEN = STAMPS[7] + 1
AFTER_ALL = STAMPS[-1] + 1


@pytest.fixture(params=["none", "zstd"])
def stamped(broker: BrokerProcess, make_topic: MakeTopic, request: pytest.FixtureRequest) -> str:
    """A topic of twenty messages of long ago, one a second, in batches of several."""
    topic = make_topic(**{"retention.ms": "-1"})
    producer = producer_of(broker.bootstrap, **{"linger.ms": 50, "compression.type": request.param})
    for n, stamp in enumerate(STAMPS):
        producer.produce(topic, b"%d " % n + b"x" * 100, partition=0, timestamp=stamp)
    assert error_names(deliver(producer, topic, [])) == set()
    return topic


def test_confluent_finds_offsets_by_time(broker: BrokerProcess, stamped: str) -> None:
    consumer = consumer_of(broker.bootstrap)
    try:
        asked = [STAMPS[0] - 5, STAMPS[7], BETWEEN, AFTER_ALL]
        found = [
            consumer.offsets_for_times([TopicPartition(stamped, 0, t)], timeout=10)[0].offset
            for t in asked
        ]
    finally:
        consumer.close()
    assert found == [0, 7, 8, -1]  # -1 is librdkafka's END: no such message yet


def test_kafka_python_finds_offsets_by_time(broker: BrokerProcess, stamped: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    partition = PyTopicPartition(stamped, 0)
    try:
        found = consumer.offsets_for_times({partition: BETWEEN})[partition]
        assert (found.offset, found.timestamp) == (8, STAMPS[8])
        assert consumer.offsets_for_times({partition: AFTER_ALL})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 20}
    finally:
        consumer.close()


def test_aiokafka_finds_offsets_by_time(broker: BrokerProcess, stamped: str) -> None:
    async def ask() -> list[Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        try:
            partition = AioTopicPartition(stamped, 0)
            answers = [
                await consumer.offsets_for_times({partition: t}) for t in (BETWEEN, AFTER_ALL)
            ]
            return [answer[partition] for answer in answers]
        finally:
            await consumer.stop()

    between, after = asyncio.run(ask())
    assert (between.offset, between.timestamp) == (8, STAMPS[8])
    assert after is None


def test_kcat_reads_from_a_time(broker: BrokerProcess, stamped: str) -> None:
    need_program("kcat")
    where = ["-C", "-t", stamped, "-p", "0", "-o", f"s@{BETWEEN}", "-e", "-q", "-f", "%o,"]
    assert kcat(broker.bootstrap, *where) == b"".join(b"%d," % n for n in range(8, 20))


def test_the_watermarks_are_known(broker: BrokerProcess, stamped: str) -> None:
    assert watermarks(broker.bootstrap, stamped) == (0, 20)


def test_reading_past_the_end_resets_as_the_client_says(
    broker: BrokerProcess, stamped: str
) -> None:
    assert read(broker.bootstrap, stamped, 1, offset=500)[0].offset() == 0


def test_a_commit_and_its_metadata_are_the_same_for_every_client(
    broker: BrokerProcess, topic: str, name: str
) -> None:
    commit_with_confluent(broker.bootstrap, topic, name, 3, "from confluent é")
    assert committed_by_everyone(broker.bootstrap, topic, name) == [(3, "from confluent é")] * 3
    commit_with_kafka_python(broker.bootstrap, topic, name, 5, "from kafka-python")
    assert committed_by_everyone(broker.bootstrap, topic, name) == [(5, "from kafka-python")] * 3
    commit_with_aiokafka(broker.bootstrap, topic, name, 7, "from aiokafka")
    assert committed_by_everyone(broker.bootstrap, topic, name) == [(7, "from aiokafka")] * 3


def test_too_much_metadata_is_refused(broker: BrokerProcess, topic: str, name: str) -> None:
    with pytest.raises(KafkaException) as refused:
        commit_with_confluent(broker.bootstrap, topic, name, 1, "m" * 5000)
    assert refused.value.args[0].name() == "OFFSET_METADATA_TOO_LARGE"


def commit_with_confluent(bootstrap: str, topic: str, group: str, at: int, note: str) -> None:
    consumer = consumer_of(bootstrap, **{"group.id": group})
    try:
        offsets = [TopicPartition(topic, 0, at, metadata=note)]
        done = consumer.commit(offsets=offsets, asynchronous=False)
        for each in done or []:
            if each.error:
                raise KafkaException(each.error)
    finally:
        consumer.close()


def commit_with_kafka_python(bootstrap: str, topic: str, group: str, at: int, note: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    try:
        consumer.assign([PyTopicPartition(topic, 0)])
        consumer.commit({PyTopicPartition(topic, 0): OffsetAndMetadata(at, note, -1)})
    finally:
        consumer.close()


def commit_with_aiokafka(bootstrap: str, topic: str, group: str, at: int, note: str) -> None:
    async def commit() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.commit({partition: AioOffsetAndMetadata(at, note)})
        finally:
            await consumer.stop()

    asyncio.run(commit())


def committed_by_everyone(bootstrap: str, topic: str, group: str) -> list[tuple[int, str]]:
    """(offset, metadata) as confluent-kafka, kafka-python and aiokafka tell it."""
    answers = [
        _by_confluent(bootstrap, topic, group),
        _by_kafka_python(bootstrap, topic, group),
        asyncio.run(_by_aiokafka(bootstrap, topic, group)),
    ]
    # confluent-kafka commits the zero byte that ends a C string along with the text.
    return [(offset, note.removesuffix("\0")) for offset, note in answers]


def _by_confluent(bootstrap: str, topic: str, group: str) -> tuple[int, str]:
    consumer = consumer_of(bootstrap, **{"group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, 0)], timeout=10)[0]
        return found.offset, str(found.metadata)
    finally:
        consumer.close()


def _by_kafka_python(bootstrap: str, topic: str, group: str) -> tuple[int, str]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group)
    try:
        found = consumer.committed(PyTopicPartition(topic, 0), metadata=True)
        return found.offset, found.metadata
    finally:
        consumer.close()


async def _by_aiokafka(bootstrap: str, topic: str, group: str) -> tuple[int, str]:
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(group)
        found = offsets[AioTopicPartition(topic, 0)]
        return found.offset, found.metadata
    finally:
        await admin.close()
