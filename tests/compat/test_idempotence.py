"""Idempotent producers across a broker that stops or is killed in mid-flow: exactly once, in order.

Each client's messages are in flight when the broker goes; the client retries by itself and must
leave neither a gap nor a repeat.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from support.broker import BrokerProcess
from support.cluster import BrokerCluster
from support.confluent import admin_of, create_topic, producer_of, values_in
from support.rolling import RollingRestart
from support.waiting import wait_until

COUNT = 4000
BEFORE = 400
WITHIN = 40.0
VALUES = [b"%d" % n for n in range(COUNT)]

Interrupt = Callable[[], None]
Produce = Callable[[str, str, Interrupt], None]


def produce_confluent(bootstrap: str, topic: str, interrupt: Interrupt) -> None:
    settings = {
        "enable.idempotence": True,
        "batch.num.messages": 10,
        "delivery.timeout.ms": int(WITHIN * 1000),
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
    }
    producer = producer_of(bootstrap, **settings)
    delivered: list[bytes] = []
    failed: list[object] = []

    def report(error: object, message: object) -> None:
        (failed if error else delivered).append(message)  # type: ignore[arg-type]

    for value in VALUES:
        producer.produce(topic, value, partition=0, on_delivery=report)
    wait_until(lambda: producer.poll(0.005) >= 0 and len(delivered) >= BEFORE, every=0)
    assert len(delivered) < COUNT, "nothing was in flight"
    interrupt()
    assert producer.flush(WITHIN) == 0
    assert (len(delivered), failed) == (COUNT, [])


def produce_kafka_python(bootstrap: str, topic: str, interrupt: Interrupt) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        batch_size=300,
        delivery_timeout_ms=int(WITHIN * 1000),
        request_timeout_ms=10_000,
        reconnect_backoff_max_ms=200,
        retry_backoff_ms=50,
    )
    try:
        sent = [producer.send(topic, value, partition=0) for value in VALUES]
        sent[BEFORE].get(timeout=WITHIN)
        assert not sent[-1].is_done, "nothing was in flight"
        interrupt()
        for each in sent:
            each.get(timeout=WITHIN)
    finally:
        producer.close(timeout=5)


def produce_aiokafka(bootstrap: str, topic: str, interrupt: Interrupt) -> None:
    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            max_batch_size=300,
            retry_backoff_ms=50,
        )
        await producer.start()
        try:
            first = [await producer.send(topic, v, partition=0) for v in VALUES[: BEFORE + 1]]
            await asyncio.wait_for(first[BEFORE - 1], WITHIN)
            broken = asyncio.create_task(asyncio.to_thread(interrupt))
            rest = [await producer.send(topic, v, partition=0) for v in VALUES[BEFORE + 1 :]]
            await broken
            await asyncio.wait_for(asyncio.gather(*first, *rest), WITHIN)
        finally:
            await producer.stop()

    asyncio.run(produce())
    gc.collect()  # now, while the warnings that aiokafka's lost sockets cause are ignored


def stop_and_start(broker: BrokerProcess) -> None:
    broker.restart()


def kill_and_start(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


# aiokafka forgets to close the sockets of connections that were refused.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("interrupt", [stop_and_start, kill_and_start])
@pytest.mark.parametrize("produce", [produce_confluent, produce_kafka_python, produce_aiokafka])
def test_an_idempotent_producer_survives_the_brokers_restart(
    own_broker: BrokerProcess,
    name: str,
    produce: Produce,
    interrupt: Callable[[BrokerProcess], None],
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    produce(own_broker.bootstrap, name, lambda: interrupt(own_broker))
    assert values_in(own_broker.bootstrap, name) == VALUES


# The same.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("produce", [produce_confluent, produce_kafka_python, produce_aiokafka])
def test_an_idempotent_producer_survives_a_rolling_restart(
    rolling_restart: tuple[BrokerCluster, RollingRestart], name: str, produce: Produce
) -> None:
    cluster, restart = rolling_restart
    create_topic(cluster.admin, name)

    def interrupt() -> None:
        restart.wait_for(restart.begun + 1)

    with restart.going_on():
        produce(cluster.bootstrap, name, interrupt)
        assert values_in(cluster.bootstrap, name) == VALUES
    gc.collect()  # now, while warnings about sockets are ignored


def test_producer_ids_are_never_given_twice(own_broker: BrokerProcess, name: str) -> None:
    """A reused id would make the broker take a new producer's messages for repeats."""
    create_topic(admin_of(own_broker.bootstrap), name)
    for n in range(3):
        producer = producer_of(own_broker.bootstrap, **{"enable.idempotence": True})
        producer.produce(name, b"%d" % n, partition=0)
        assert producer.flush(15) == 0
        kill_and_start(own_broker)
    assert values_in(own_broker.bootstrap, name) == [b"%d" % n for n in range(3)]
