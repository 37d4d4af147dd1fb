"""Any bytes at all into the decoders: a value or a typed error, and memory in proportion."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus.wire.apis import APIS, Api
from nexus.wire.batch import check_from_client, iter_headers
from nexus.wire.codec import decode, encode
from nexus.wire.compression import Codec, compress, decompress
from nexus.wire.errors import MalformedMessage, ProtocolError
from nexus.wire.frames import decode_request_header
from nexus.wire.records import decode_records
from support.codec_strategies import messages
from support.mutations import mutated
from support.rawwire import batch, record

quickly = settings(
    max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
MEMORY_MAX = 4 << 20
LIMIT = 50_000


def versions(api: Api) -> list[int]:
    return [v for v in range(api.min_version, api.max_version + 1) if api.serves(v)]


def bounded(work: Callable[[], Any], allowed: type[Exception]) -> None:
    """Run it: it may raise what is allowed, and take no more memory than the bound."""
    tracemalloc.start()
    try:
        work()
    except allowed:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MEMORY_MAX, f"{peak:,} bytes"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
@quickly
@given(data=st.data())
def test_a_request_decodes_or_is_malformed(api: Api, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api)))
    valid = encode(data.draw(messages(api.request, version)), version)
    body = data.draw(mutated(bytes(valid)) | st.binary(max_size=200))
    bounded(lambda: decode(api.request, memoryview(bytearray(body)), version), MalformedMessage)


@quickly
@given(st.binary(max_size=100))
def test_a_request_header_decodes_or_is_malformed(data: bytes) -> None:
    bounded(lambda: decode_request_header(memoryview(data)), MalformedMessage)


@quickly
@given(st.data())
def test_a_batch_from_a_client_passes_or_is_refused(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
    records = b"".join(record(value, delta=n) for n, value in enumerate(values))
    body = data.draw(mutated(batch(records, len(values))))
    bounded(lambda: check_from_client(memoryview(bytearray(body))), ProtocolError)
    bounded(lambda: list(iter_headers(memoryview(body))), ProtocolError)


@pytest.mark.parametrize("codec", Codec)
@quickly
@given(data=st.data())
def test_records_decode_or_are_refused(codec: Codec, data: st.DataObject) -> None:
    """The checksum is right, so the damage reaches the records themselves."""
    values = data.draw(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
    plain = data.draw(mutated(b"".join(record(v, delta=n) for n, v in enumerate(values))))
    packed = data.draw(mutated(bytes(compress(codec, plain))))
    body = batch(packed, len(values), attributes=int(codec))
    bounded(lambda: decode_records(memoryview(body), LIMIT), ProtocolError)


@pytest.mark.parametrize("codec", Codec)
@quickly
@given(data=st.data())
def test_decompression_ends_within_its_limit(codec: Codec, data: st.DataObject) -> None:
    plain = data.draw(st.binary(max_size=200)) * data.draw(st.integers(1, 500))
    packed = data.draw(mutated(bytes(compress(codec, plain))))
    bounded(lambda: _within_limit(codec, packed), ProtocolError)


def _within_limit(codec: Codec, packed: bytes) -> None:
    assert len(decompress(codec, packed, LIMIT)) <= LIMIT
