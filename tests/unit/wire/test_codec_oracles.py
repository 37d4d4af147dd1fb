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
from support.codec_oracles import Oracle, ask_kafka_python, ask_kio, plain
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


@in_every_version(SERVED + EMBEDDED + HEADERS)
@given(data=st.data())
@settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_others_understand_what_we_encode_and_we_understand_them(
    cls: type, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    if isinstance(message, ApiVersionsResponse):
        # kafka-python takes one with an error for version 0, as a broker too old would answer.
        message.error_code = ErrorCode.NONE
    encoded = bytes(encode(message, version))
    assert decode(cls, memoryview(encoded), version) == message
    for ask in oracles(cls):
        understood, again = ask(cls, version, encoded)
        assert understood == plain(message, version)
        decoded: object = decode(cls, memoryview(again), version)
        assert plain(decoded, version) == plain(message, version)


def oracles(cls: type) -> list[Oracle]:
    """Name who can be asked: kafka-python has no share groups, and headers only inside frames."""
    is_shared = "Share" in cls.__name__
    return [ask_kio] if is_shared or cls in HEADERS else [ask_kio, ask_kafka_python]
