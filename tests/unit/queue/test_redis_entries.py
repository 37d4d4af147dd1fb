"""Entries of Redis become messages, and messages entries, without a byte changed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.queue.port import Message
from nexus.queue.redis.entries import Entry, element_entries, fields_of, message_of
from nexus.queue.redis.url import parse_redis_url
from nexus.telemetry.codec import decode_messages

STREAM = parse_redis_url("redis://h?stream=s")
SPREAD = parse_redis_url("redis://h?stream=s&form=fields")
NAMED = parse_redis_url("redis://h?stream=s&field=data&by=host")
LIST = parse_redis_url("redis://h?list=l&by=host")


def entry(**fields: bytes) -> Entry:
    return Entry(b"5-0", tuple((name.encode(), value) for name, value in fields.items()))


def told(message: Message, name: str) -> bytes | None:
    return dict(message.headers).get(name)


def test_fields_that_are_a_reading_become_one_in_json() -> None:
    made = message_of(
        entry(
            timestamp=b"2025-07-18T20:42:34Z",
            metric_name=b"DCGM_FI_DEV_GPU_UTIL",
            gpu_id=b"0",
            uuid=b"GPU-1",
            value=b"85.5",
            labels=b'{"driver": "535"}',
            rack=b"7",
        ),
        STREAM,
    )
    assert (made.key, told(made, "content-type")) == (b"GPU-1", b"application/json")
    assert (told(made, "redis-id"), told(made, "source")) == (b"5-0", b"redis")
    assert made.timestamp_ms == 0, "an old time would let retention take it away at once"
    decoded = decode_messages([made.value], [None])
    assert decoded.errors == []
    (row,) = decoded.table.to_pylist()
    assert (row["source_value"], row["uuid"], row["gpu"]) == (85.5, "GPU-1", "0")
    assert json.loads(row["labels"]) == {"driver": "535", "rack": "7"}


@pytest.mark.parametrize(
    ("given", "url", "value", "key"),
    [
        (entry(anything=b"\x00\xff"), STREAM, b"\x00\xff", b"5-0"),
        (entry(payload=b"p", other=b"o"), STREAM, b"p", b"5-0"),
        (entry(payload=b'{"uuid":"GPU-1"}', key=b"k"), STREAM, b'{"uuid":"GPU-1"}', b"k"),
        (entry(data=b"p", host=b"h1"), NAMED, b"p", b"h1"),
        (entry(data=b'{"host":"h2"}', x=b""), NAMED, b'{"host":"h2"}', b"h2"),
        (
            entry(x=b'{"gpu_id":"GPU-9","uuid":""}'),
            STREAM,
            b'{"gpu_id":"GPU-9","uuid":""}',
            b"GPU-9",
        ),
        (entry(x=b'{"gpu_id":"0"}'), STREAM, b'{"gpu_id":"0"}', b"5-0"),
        (element_entries(7, [b'{"host":"h3"}'])[0], LIST, b'{"host":"h3"}', b"h3"),
        (element_entries(7, [b"a", b"b"])[1], LIST, b"b", b"8"),
    ],
)
def test_payload_and_key_are_where_they_are_said_to_be(
    given: Entry, url: object, value: bytes, key: bytes
) -> None:
    made = message_of(given, url)  # type: ignore[arg-type]
    assert (made.value, made.key) == (value, key)


def test_fields_that_are_no_text_or_come_twice_are_kept() -> None:
    made = message_of(Entry(b"1-0", ((b"a", b"1"), (b"a", b"2"), (b"\xfe", b"\xff"))), STREAM)
    assert json.loads(made.value) == {"a": ["1", "2"], "\\xfe": {"base64": "/w=="}}


@given(
    st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.sampled_from(["content-type", "count", "h"]), st.binary()), max_size=3),
)
def test_a_message_comes_back_from_a_stream_as_it_was(
    value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    fields = fields_of(value, key, tuple(headers), STREAM)
    made = message_of(Entry(b"1-0", fields), STREAM)
    assert made.value == value
    assert key is None or made.key == key
    back = [pair for pair in made.headers if pair[0] not in ("redis-id", "source")]
    assert back == headers or "content-type" not in dict(headers)


def test_an_object_is_spread_over_fields_where_consumers_want_them() -> None:
    value = b'{"uuid":"GPU-1","value":1.5,"labels":{"a":"b"},"x":"\xc3\xa9"}'
    assert fields_of(value, b"k", (), SPREAD) == (
        (b"uuid", b"GPU-1"),
        (b"value", b"1.5"),
        (b"labels", b'{"a":"b"}'),
        (b"x", "é".encode()),
    )
    back = message_of(Entry(b"1-0", fields_of(value, b"k", (), SPREAD)), STREAM)
    assert json.loads(back.value) == json.loads(value)
    assert fields_of(b"no json", None, (), SPREAD) == ((b"payload", b"no json"),)
