"""Ids of events: places in the queue that any gateway understands, and nothing else does harm."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.gateway.live.position import Position, decode_position, encode_position
from support.readings import examples

offsets = st.dictionaries(st.integers(0, 10_000), st.integers(0, 2**62), max_size=40)


@examples(30)
@given(time_ms=st.integers(0, 2**45), at=offsets)
def test_an_id_says_the_position_it_was_made_of(time_ms: int, at: dict[int, int]) -> None:
    position = Position(time_ms, at)
    assert decode_position(encode_position(position, "t"), "t") == position


def test_an_id_of_twelve_partitions_is_short_and_fits_a_header() -> None:
    position = Position(1_794_000_000_000, {p: 1_000_000_000 + p for p in range(12)})
    text = encode_position(position, "gpu-telemetry")
    assert len(text) < 120
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)


def test_an_id_of_another_topic_is_none_of_this_one() -> None:
    text = encode_position(Position(1, {0: 5}), "one")
    assert decode_position(text, "other") is None


@pytest.mark.parametrize(
    "text", ["", "x", "AQ", "é", "\n", "42", "=" * 10, "A" * 50_000, "AQID" * 20, "0" * 4095]
)
def test_text_that_is_no_id_is_refused(text: str) -> None:
    assert decode_position(text, "t") is None


@examples(30)
@given(st.text(max_size=80))
def test_any_text_may_come(text: str) -> None:
    assert decode_position(text, "t") is None


@examples(30)
@given(at=offsets, cut=st.integers(1, 10))
def test_a_torn_id_is_refused(at: dict[int, int], cut: int) -> None:
    text = encode_position(Position(1_794_000_000_000, at), "t")
    assert decode_position(text[:-cut], "t") is None


def test_a_position_is_at_least_another_when_no_partition_is_behind() -> None:
    one = Position(0, {0: 5, 1: 7})
    assert one.is_at_least(Position(9, {0: 5}))
    assert one.is_at_least(Position(9, {0: 5, 1: 7, 2: 0}))
    assert not one.is_at_least(Position(9, {0: 6, 1: 0}))
    assert not one.is_at_least(Position(9, {2: 1}))
