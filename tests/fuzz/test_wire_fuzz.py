"""Anything at all sent to a live broker: it survives, stays small, and serves the next client."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus.wire.apis import APIS, Api
from nexus.wire.codec import encode
from support.broker import BrokerProcess
from support.codec_strategies import messages
from support.confluent import read, send
from support.mutations import mutated
from support.rawwire import RawConnection, batch, framed, produce_body, record, request_header

GROWTH_MAX = 100 << 20
ANSWER_SECONDS = 0.25

quickly = settings(
    max_examples=12,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for the fuzzers alone; what they did to it is judged at the end."""
    broker = BrokerProcess(tmp_path_factory.mktemp("fuzzed"))
    broker.start()
    send(broker.bootstrap, "fuzz", [b"warm"])
    before = broker.rss_bytes()
    try:
        yield broker
        growth = broker.rss_bytes() - before
        assert growth < GROWTH_MAX, f"{growth:,} bytes"
    finally:
        status = broker.stop()
    assert status == 0


@pytest.fixture(autouse=True)
def _unharmed(target: BrokerProcess) -> Iterator[None]:
    """Whatever a test sent, the broker had an answer to it, not an unexpected exception."""
    said_before = len(target.stderr)
    yield
    assert target.faults(said_before) == []


def attack(broker: BrokerProcess, data: bytes) -> None:
    """Send the bytes, say that no more come, and take whatever is answered."""
    with RawConnection(broker.port, timeout=ANSWER_SECONDS) as connection:
        # The broker may close before everything is sent: that is an answer.
        with contextlib.suppress(OSError):
            connection.send(data)
            connection.socket.shutdown(1)
        connection.closed()
    assert broker.alive, broker.stderr[-4000:]


def serves_real_clients(broker: BrokerProcess) -> bool:
    offset = send(broker.bootstrap, "fuzz", [b"alive"])[0]
    return read(broker.bootstrap, "fuzz", 1, offset=offset)[0].value() == b"alive"


def header_of(api: Api, version: int) -> bytes:
    tags = b"\0" if api.flexible(version) else b""
    return request_header(int(api.key), version) + tags


@quickly
@given(data=st.binary(max_size=2000))
def test_random_bytes(target: BrokerProcess, data: bytes) -> None:
    attack(target, data)


@quickly
@given(data=st.binary(max_size=500))
def test_random_frames(target: BrokerProcess, data: bytes) -> None:
    attack(target, framed(data))


@quickly
@given(length=st.integers(-(2**31), 2**31 - 1), data=st.binary(max_size=50))
def test_any_length(target: BrokerProcess, length: int, data: bytes) -> None:
    attack(target, struct.pack(">i", length) + data)


@quickly
@given(
    key=st.integers(-(2**15), 2**15 - 1),
    version=st.integers(-(2**15), 2**15 - 1),
    body=st.binary(max_size=100),
)
def test_any_api_and_version(target: BrokerProcess, key: int, version: int, body: bytes) -> None:
    attack(target, framed(request_header(key, version) + body))


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
@quickly
@given(data=st.data())
def test_damaged_requests_of_every_api(
    target: BrokerProcess, api: Api, data: st.DataObject
) -> None:
    """Requests that decode, with any values in them, and the same with damage."""
    versions = [v for v in range(api.min_version, api.max_version + 1) if api.serves(v)]
    version = data.draw(st.sampled_from(versions))
    body = bytes(encode(data.draw(messages(api.request, version)), version))
    whole = header_of(api, version) + data.draw(mutated(body))
    attack(target, framed(whole))


@quickly
@given(data=st.data())
def test_damaged_batches(target: BrokerProcess, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
    records = b"".join(record(value, delta=n) for n, value in enumerate(values))
    body = produce_body("fuzz", data.draw(mutated(batch(records, len(values)))))
    attack(target, framed(request_header(0, 7) + body))


def test_the_broker_still_serves_after_all_that(target: BrokerProcess) -> None:
    assert serves_real_clients(target)
