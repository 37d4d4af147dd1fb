"""Fetches that wait: each is answered when its time is over, whatever the clocks' rounding."""

from __future__ import annotations

import struct
import time

from support.broker import BrokerProcess
from support.confluent import send
from support.rawwire import FETCH, RawConnection, fetch_body, framed, request_header

WAITS_MS = [1, 2, 3, 5, 7, 9, 11, 13] * 5
CONNECTIONS = 8


def test_every_waiting_fetch_is_answered_in_time(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"v"])
    connections = [RawConnection(broker.port, timeout=10) for _ in range(CONNECTIONS)]
    try:
        for wait_ms in WAITS_MS:
            ask = framed(request_header(FETCH, 4) + fetch_body(topic, 1, wait_ms=wait_ms))
            for connection in connections:
                connection.send(ask)
            for connection in connections:
                assert connection.receive() is not None, wait_ms
    finally:
        for connection in connections:
            connection.socket.close()


def test_a_fetch_waits_until_there_is_enough(broker: BrokerProcess, topic: str) -> None:
    """A hundred bytes are not the two thousand that were asked for; the second batch is."""
    send(broker.bootstrap, topic, [b"v" * 100])
    with RawConnection(broker.port) as connection:
        body = fetch_body(topic, wait_ms=30_000, min_bytes=2000)
        connection.send(framed(request_header(FETCH, 4) + body))
        began = time.monotonic()
        send(broker.bootstrap, topic, [b"v" * 3000])
        answer = connection.receive()
    assert answer is not None
    assert len(answer) > 3000
    assert time.monotonic() - began < 15


def test_a_fetch_of_nothing_new_waits_its_time_and_no_longer(
    broker: BrokerProcess, topic: str
) -> None:
    with RawConnection(broker.port) as connection:
        began = time.monotonic()
        answer = connection.request(FETCH, 4, fetch_body(topic, wait_ms=200))
        waited = time.monotonic() - began
    assert answer is not None
    assert waited >= 0.15
    (size,) = struct.unpack(">i", answer[-4:])
    assert size <= 0


def test_a_fetch_outside_the_log_is_answered_at_once(broker: BrokerProcess, topic: str) -> None:
    with RawConnection(broker.port) as connection:
        began = time.monotonic()
        answer = connection.request(FETCH, 4, fetch_body(topic, 500, wait_ms=30_000))
    assert answer is not None
    assert time.monotonic() - began < 15
