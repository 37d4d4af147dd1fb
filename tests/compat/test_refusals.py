"""What the broker must refuse, as each client reports it: quickly and by its proper name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import MessageSizeTooLargeError as AioMessageSizeTooLargeError
from confluent_kafka import KafkaException
from kafka import KafkaProducer
from kafka.errors import KafkaError as PyKafkaError
from kafka.errors import MessageSizeTooLargeError

from support.broker import BrokerProcess
from support.confluent import deliver, error_names, producer_of, send, values_in
from support.fixtures import MakeTopic

PATIENT_SECONDS = 15.0
BIG = b"x" * 2_000_000


def test_confluent_is_told_that_a_message_is_too_large(broker: BrokerProcess, topic: str) -> None:
    producer = producer_of(broker.bootstrap, **{"message.max.bytes": 10_000_000})
    assert error_names(deliver(producer, topic, [BIG], partition=0)) == {"MSG_SIZE_TOO_LARGE"}
    assert error_names(deliver(producer, topic, [b"small"], partition=0)) == set()
    assert values_in(broker.bootstrap, topic) == [b"small"]


def test_kafka_python_is_told_that_a_message_is_too_large(
    broker: BrokerProcess, topic: str
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, max_request_size=10_000_000, batch_size=0
    )
    try:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, BIG, partition=0).get(timeout=PATIENT_SECONDS)
    finally:
        producer.close(timeout=PATIENT_SECONDS)


def test_aiokafka_is_told_that_a_message_is_too_large(broker: BrokerProcess, topic: str) -> None:
    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=10_000_000)
        await producer.start()
        try:
            await asyncio.wait_for(producer.send_and_wait(topic, BIG), PATIENT_SECONDS)
        finally:
            await producer.stop()

    with pytest.raises(AioMessageSizeTooLargeError):
        asyncio.run(produce())


def test_a_topics_own_limit_is_kept(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"max.message.bytes": "2000"})
    producer = producer_of(broker.bootstrap)
    large, small = [deliver(producer, topic, [b"x" * n], partition=0) for n in (3000, 1000)]
    assert error_names(large) == {"MSG_SIZE_TOO_LARGE"}
    assert error_names(small) == set()
    assert values_in(broker.bootstrap, topic) == [b"x" * 1000]


@pytest.mark.parametrize("bad", ["with space", "slash/es", "..", "ü", "n" * 250])
def test_producing_to_an_impossible_name_fails_by_name(broker: BrokerProcess, bad: str) -> None:
    producer = producer_of(broker.bootstrap, **{"topic.metadata.propagation.max.ms": 2000})
    (name,) = error_names(deliver(producer, bad, [b"v"]))
    assert name in {"TOPIC_EXCEPTION", "_UNKNOWN_TOPIC"}


def test_a_compacted_topic_refuses_a_message_without_a_key(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"cleanup.policy": "compact"})
    producer = producer_of(broker.bootstrap)
    assert error_names(deliver(producer, topic, [b"v"], partition=0)) == {"INVALID_RECORD"}
    assert error_names(deliver(producer, topic, [b"v", None], partition=0, key=b"k")) == set()
    assert values_in(broker.bootstrap, topic) == [b"v", None]


def test_a_partition_that_is_not_there_is_unknown(broker: BrokerProcess, topic: str) -> None:
    producer = producer_of(broker.bootstrap, **{"topic.metadata.propagation.max.ms": 1000})
    send(broker.bootstrap, topic, [b"v"])
    assert error_names(deliver(producer, topic, [b"v"], partition=7)) == {"_UNKNOWN_PARTITION"}


def confluent_transaction(bootstrap: str) -> None:
    producer = producer_of(bootstrap, **{"transactional.id": "tx-confluent"})
    producer.init_transactions(PATIENT_SECONDS)


def kafka_python_transaction(bootstrap: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id="tx-kafka-python",
        max_block_ms=int(PATIENT_SECONDS * 1000),
    )
    try:
        producer.init_transactions()
    finally:
        producer.close(timeout=1)


def aiokafka_transaction(bootstrap: str) -> None:
    async def begin() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="tx-aiokafka")
        try:
            await asyncio.wait_for(producer.start(), PATIENT_SECONDS)
        finally:
            await producer.stop()

    asyncio.run(begin())


@pytest.mark.parametrize(
    ("begin", "refused"),
    [
        (confluent_transaction, KafkaException),
        (kafka_python_transaction, PyKafkaError),
        (aiokafka_transaction, AioKafkaError),
    ],
)
def test_a_transaction_is_refused_and_does_not_hang(
    broker: BrokerProcess, begin: Callable[[str], None], refused: type[Exception]
) -> None:
    """Transactions are not built: the answer is an error at once, never a client that waits."""
    began = time.monotonic()
    with pytest.raises(refused):
        begin(broker.bootstrap)
    assert time.monotonic() - began < PATIENT_SECONDS - 1
