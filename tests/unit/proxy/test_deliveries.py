"""Delivered messages as text: what a client reads is what was written, on one line."""

from __future__ import annotations

import base64

import orjson

from nexus.proxy.sharing.deliveries import Delivered, documents, events
from nexus.wire.records import Header, Record

MEMBER = "0123456789abcdef" * 2
IS_JSON: tuple[Header, ...] = (("content-type", b"application/json"),)


def delivered(
    value: bytes | None, headers: tuple[Header, ...] = IS_JSON, key: bytes | None = None
) -> Delivered:
    return Delivered(3, 12, 2, Record(12, 1_700, key, value, headers))


def told(one: Delivered) -> dict[str, object]:
    """The one event's data, and the same as `GET /poll` tells it."""
    lines = events([one], 'a "topic"', MEMBER).decode().split("\n")
    assert lines[0] == f"id: 3-12-{MEMBER}"
    assert lines[2:] == ["", ""]
    assert "\r" not in lines[1]
    data: dict[str, object] = orjson.loads(lines[1].removeprefix("data: "))
    assert orjson.loads(orjson.dumps(documents([one], 'a "topic"', MEMBER))) == [data]
    return data


def test_an_event_tells_all_of_a_message() -> None:
    assert told(delivered(b'{"gpu": 1}', (*IS_JSON, ("a", b"b")), key=b'k"1')) == {
        "id": f"3-12-{MEMBER}",
        "topic": 'a "topic"',
        "partition": 3,
        "offset": 12,
        "key": 'k"1',
        "headers": {"content-type": "application/json", "a": "b"},
        "timestamp": 1_700,
        "attempt": 2,
        "payload": {"gpu": 1},
    }


def test_json_on_many_lines_is_told_on_one() -> None:
    for end in (b"\n", b"\r", b"\r\n"):
        assert told(delivered(b"[1," + end + b'"\xc3\xa9"]'))["payload"] == [1, "é"]


def test_no_value_is_null_and_what_is_no_json_comes_as_base64() -> None:
    assert told(delivered(None))["payload"] is None
    for one in (delivered(b"\xff{"), delivered(b"1", (("content-type", b"text/plain"),))):
        assert base64.b64decode(str(told(one)["payload_base64"])) == one.record.value
        assert "payload" not in told(one)


def test_names_and_keys_that_are_no_text_do_not_end_the_stream() -> None:
    one = delivered(b"1", (("\udcff", b"\xff"),), key=b"\xff")
    assert told(one)["headers"] == {"\ufffd": "\ufffd"}
    assert told(one)["key"] == "\ufffd"
