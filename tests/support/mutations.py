"""Damage for fuzz tests: valid bytes that are cut, flipped, grown or given absurd lengths."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

_ABSURD = [-1, -2, 0, 1, 0x7F, 0xFFFF, 0x7FFFFFFF, -0x80000000, 0x00FFFFFF]


@st.composite
def mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    """The valid bytes, or what up to three pieces of damage make of them."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from([_flip, _cut, _grow, _lie, _repeat]))(draw, data)
    return bytes(data)


def _flip(draw: st.DrawFn, data: bytearray) -> None:
    if data:
        data[_position(draw, data)] = draw(st.integers(0, 255))


def _cut(draw: st.DrawFn, data: bytearray) -> None:
    if data:
        del data[_position(draw, data) :]


def _grow(draw: st.DrawFn, data: bytearray) -> None:
    at = draw(st.integers(0, len(data)))
    data[at:at] = draw(st.binary(min_size=1, max_size=20))


def _lie(draw: st.DrawFn, data: bytearray) -> None:
    """Write an absurd number over four bytes: lengths and counts live everywhere."""
    if len(data) >= 4:
        at = draw(st.integers(0, len(data) - 4))
        data[at : at + 4] = struct.pack(">i", draw(st.sampled_from(_ABSURD)))


def _repeat(draw: st.DrawFn, data: bytearray) -> None:
    at = draw(st.integers(0, len(data)))
    data[at:at] = data[at : at + 50]


def _position(draw: st.DrawFn, data: bytearray) -> int:
    return draw(st.integers(0, len(data) - 1))
