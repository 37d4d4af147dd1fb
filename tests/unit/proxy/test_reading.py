"""Bodies become messages, and what is wrong with one is said."""

from __future__ import annotations

import pytest

from nexus.proxy.errors import NotAcceptable
from nexus.proxy.messages import BATCH_BYTES_MAX, Message, chunks
from nexus.proxy.reading import many, single
from nexus.web.problems import BadParameter


def test_json_carries_a_payload_of_any_kind() -> None:
    message = single(b'{"payload": {"a": [1, null]}}', "application/json", None, None)
    assert message.value == b'{"a":[1,null]}'
    assert message.headers == (("content-type", b"application/json"),)
    assert message.key is None


def test_raw_bytes_keep_their_type() -> None:
    message = single(b"\x00\xff", "image/png", "k", 3)
    assert (message.value, message.key, message.partition) == (b"\x00\xff", b"k", 3)
    assert message.headers == (("content-type", b"image/png"),)


def test_what_curl_sends_by_default_is_read_as_json() -> None:
    kind = "application/x-www-form-urlencoded"
    assert single(b'{"payload":1}', kind, None, None).value == b"1"


def test_a_message_may_say_more() -> None:
    body = b'{"payload":1,"key":"k","headers":{"a":"b"},"partition":2,"timestamp":7}'
    message = single(body, None, None, None)
    assert message == Message(
        b"1", b"k", (("content-type", b"application/json"), ("a", b"b")), 7, 2
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'[{"payload":1},{"payload":2}]'),
        ("application/x-ndjson", b'{"payload":1}\n\n{"payload":2}\n'),
        ("application/ndjson; charset=utf-8", b'{"payload":1}\r\n{"payload":2}'),
    ],
)
def test_many_come_as_an_array_or_as_lines(kind: str, body: bytes) -> None:
    assert [message.value for message in many(body, kind)] == [b"1", b"2"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"1",
        b"[]",
        b"{}",
        b'{"payload":1,"key":2}',
        b'{"payload":1,"partition":-1}',
        b'{"payload":1,"partition":true}',
        b'{"payload":1,"timestamp":"now"}',
        b'{"payload":1,"headers":{"a":1}}',
        b'{"payload":1,"what":1}',
    ],
)
def test_what_is_wrong_is_refused(body: bytes) -> None:
    with pytest.raises(BadParameter):
        single(body, "application/json", None, None)
    with pytest.raises(BadParameter):
        many(b"[%b]" % body, "application/json")


def test_a_batch_of_another_kind_is_not_read() -> None:
    with pytest.raises(NotAcceptable):
        many(b"x", "text/plain")


def test_lots_fit_a_batch_and_keep_the_order() -> None:
    messages = [Message(b"%d" % n + b"x" * 100_000) for n in range(30)]
    lots = list(chunks(messages))
    assert [message for lot, _ in lots for message in lot] == messages
    assert len(lots) > 1
    assert all(size <= BATCH_BYTES_MAX for _, size in lots)


def test_a_message_too_large_for_a_batch_travels_alone() -> None:
    large = Message(b"x" * (BATCH_BYTES_MAX + 1))
    small = Message(b"y")
    assert [len(lot) for lot, _ in chunks([small, large, small])] == [1, 1, 1]
