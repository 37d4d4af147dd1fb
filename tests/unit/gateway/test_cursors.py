"""Cursors: they come back as they went, and nothing else is taken for one."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.gateway.cursors import Cursor, Kind, decode_cursor, encode_cursor, question_hash
from nexus.web.problems import BadParameter

KINDS: list[Kind] = ["moment", "text", "whole"]
KEY = (1_752_871_354_000_000, "GPU-ä\n/'\"", 7)
QUESTION = question_hash("/api/v1/telemetry", {"metric": ["power"], "order": "asc"})


def refusal(text: str, question: str = QUESTION) -> str:
    with pytest.raises(BadParameter) as refused:
        decode_cursor(text, question, KINDS)
    assert [fault.parameter for fault in refused.value.faults] == ["cursor"]
    return refused.value.detail


def forged(content: object) -> str:
    """A cursor whose checksum is right, whatever it says."""
    said = orjson.dumps(content)
    return urlsafe_b64encode(blake2b(said, digest_size=4).digest() + said).decode().rstrip("=")


@given(
    st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8")), st.integers(0, 10**9)
)
def test_a_cursor_comes_back_as_it_went(at: int, text: str, row: int) -> None:
    cursor = Cursor((at, text, row), (0, at, "1m"))
    written = encode_cursor(cursor, QUESTION)
    assert set(written) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert decode_cursor(written, QUESTION, KINDS) == cursor


def test_the_cursor_of_another_question_is_refused() -> None:
    text = encode_cursor(Cursor(KEY), QUESTION)
    other = question_hash("/api/v1/telemetry", {"metric": ["power"], "order": "desc"})
    assert "another question" in refusal(text, other)


def test_a_question_is_the_same_in_whatever_order_its_filters_stand() -> None:
    one = question_hash("/p", {"metric": ["a", "b"], "host": []})
    assert one == question_hash("/p", {"host": [], "metric": ["b", "a"]})
    assert one != question_hash("/q", {"metric": ["a", "b"], "host": []})
    assert one != question_hash("/p", {"metric": ["a,b"], "host": []})


def test_a_cursor_of_another_version_is_refused() -> None:
    assert "another version" in refusal(forged([2, QUESTION, list(KEY), None]))


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        [1, QUESTION, [], None],
        [1, QUESTION, [1, "a", "b"], None],
        [1, QUESTION, [True, "a", 1], None],
        [1, QUESTION, [2**63, "a", 1], None],
        [1, QUESTION, [1, None, 1], None],
        [1, QUESTION, [1, "a", 1], [1, 2]],
        [1, QUESTION, [1, "a", 1], ["a", 2, "1m"]],
        [1, QUESTION, [1, "a", 1], "raw"],
    ],
)
def test_a_forged_cursor_is_refused(content: object) -> None:
    assert "damaged" in refusal(forged(content))


@pytest.mark.parametrize("text", ["x", "!!!!", "ä", "A" * 5000, "AAAA", "null", "W10"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    assert "damaged" in refusal(text)


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_damaged_cursor_is_never_taken(place: int, change: int) -> None:
    text = encode_cursor(Cursor(KEY, (1, 2, "raw")), QUESTION)
    content = bytearray(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    content[place % len(content)] ^= change
    assert refusal(urlsafe_b64encode(bytes(content)).decode().rstrip("="))
