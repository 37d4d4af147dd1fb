"""SIGTERM: the broker drains, syncs and is gone in under five seconds, whatever goes on."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, Message

from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, producer_of, send, values_in
from support.fixtures import MakeBroker
from support.members import ConfluentMember, wait_shared
from support.rawwire import FETCH, RawConnection, fetch_body, framed, request_header
from support.waiting import wait_until

STOP_SECONDS_MAX = 15.0


def stop_in_time(broker: BrokerProcess) -> None:
    began = time.monotonic()
    assert broker.stop() == 0, broker.stderr
    assert time.monotonic() - began < STOP_SECONDS_MAX
    assert "Traceback" not in broker.stderr


def test_an_idle_broker_stops(own_broker: BrokerProcess) -> None:
    stop_in_time(own_broker)


@pytest.mark.parametrize("fsync", ["commit", "interval", "never"])
def test_a_clean_stop_keeps_everything_whatever_the_fsync_setting(
    make_broker: MakeBroker, fsync: str
) -> None:
    broker = make_broker(fsync=fsync)
    assert fsync in broker.stdout
    values = [b"%d" % n for n in range(1000)]
    send(broker.bootstrap, "kept", values)
    stop_in_time(broker)
    broker.start()
    assert values_in(broker.bootstrap, "kept") == values


def test_waiting_fetches_members_and_half_requests_do_not_hold_it_up(
    own_broker: BrokerProcess, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    with ExitStack() as stack:
        member = ConfluentMember(own_broker.bootstrap, name, "group", "range")
        stack.callback(member._leave.set)
        wait_shared([member], 1)
        waiting = stack.enter_context(RawConnection(own_broker.port))
        body = fetch_body(name, wait_ms=60_000, min_bytes=1)
        waiting.send(framed(request_header(FETCH, 4) + body))
        half = stack.enter_context(RawConnection(own_broker.port))
        half.send(b"\x00\x00\x01\x00half")
        stop_in_time(own_broker)


def test_it_stops_under_load_and_loses_no_acknowledged_message(
    own_broker: BrokerProcess, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    settings = {
        "delivery.timeout.ms": 2000,
        "batch.num.messages": 20,
        "message.send.max.retries": 0,
    }
    producer = producer_of(own_broker.bootstrap, **settings)
    acknowledged: list[bytes | None] = []
    enough = threading.Event()

    def keep(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value())

    def load() -> None:
        number = 0
        while not enough.is_set():
            producer.produce(name, b"%d" % number, partition=0, on_delivery=keep)
            number += 1
            producer.poll(0 if number % 50 else 0.005)

    worker = threading.Thread(target=load)
    worker.start()
    try:
        wait_until(lambda: len(acknowledged) > 500, what="a flow of acknowledgements")
        stop_in_time(own_broker)
    finally:
        enough.set()
        worker.join(10)
    producer.flush(5)
    own_broker.start()
    stored = set(values_in(own_broker.bootstrap, name))
    assert set(acknowledged) <= stored
