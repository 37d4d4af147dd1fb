"""Every message in every version served, checked against two other implementations.

Ours encodes, theirs decode and encode again, ours decodes that. Where an oracle differs from Kafka
itself, the reason is given here or in `support.codec_oracles`.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus.wire.apis import APIS
from nexus.wire.codec import decode, encode
from nexus.wire.errors import ErrorCode
from nexus.wire.fields import describe
from nexus.wire.messages.api_versions import ApiVersionsResponse
from nexus.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from nexus.wire.messages.headers import RequestHeader, ResponseHeader
from support.codec_oracles import ask_kafka_python, ask_kio, plain
from support.codec_strategies import messages

SERVED = [cls for api in APIS.values() for cls in (api.request, api.response)]
EMBEDDED = [ConsumerProtocolSubscription, ConsumerProtocolAssignment]
HEADERS = [RequestHeader, ResponseHeader]


def in_every_version(classes: list[type]) -> pytest.MarkDecorator:
    """Parametrize a test by class and version."""
    cases = [
        pytest.param(cls, version, id=f"{cls.__name__}-{version}")
        for cls in classes
        for version in range(describe(cls).versions.first, describe(cls).versions.last + 1)
    ]
    return pytest.mark.parametrize(("cls", "version"), cases)


few = settings(
    max_examples=10, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@in_every_version(SERVED + EMBEDDED + HEADERS)
@given(data=st.data())
@few
def test_kio_understands_what_we_encode_and_we_understand_kio(
    cls: type, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    encoded = bytes(encode(message, version))
    assert decode(cls, memoryview(encoded), version) == message
    understood, again = ask_kio(cls, version, encoded)
    assert understood == plain(message, version)
    assert plain(decode(cls, memoryview(again), version), version) == plain(message, version)


# kafka-python's headers are never encoded or decoded on their own.
@in_every_version(SERVED + EMBEDDED)
@given(data=st.data())
@few
def test_kafka_python_understands_what_we_encode_and_we_understand_it(
    cls: type, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    if isinstance(message, ApiVersionsResponse):
        # It takes any such response with an error for version 0, as a broker too old would send it.
        message.error_code = ErrorCode.NONE
    understood, again = ask_kafka_python(cls, version, bytes(encode(message, version)))
    assert understood == plain(message, version)
    assert plain(decode(cls, memoryview(again), version), version) == plain(message, version)
