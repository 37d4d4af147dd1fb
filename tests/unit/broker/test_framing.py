"""Frames come out whole, in order, whatever pieces the network delivers them in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.broker.framing import TRUSTED_BYTES, FrameReader, FrameTooLarge

LIMIT = 4 << 20


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(reader: FrameReader, stream: bytes, scratch_bytes: int = 64) -> list[bytes]:
    """Deliver a stream as a socket would: as much as there is room for."""
    scratch = memoryview(bytearray(scratch_bytes))
    frames = []
    while stream:
        room = reader.room(scratch)
        assert len(room) > 0
        piece, stream = stream[: len(room)], stream[len(room) :]
        room[: len(piece)] = piece
        frames += [bytes(frame) for frame in reader.received(scratch, len(piece))]
    return frames


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(1, 300))
def test_frames_survive_any_fragmentation(bodies: list[bytes], scratch_bytes: int) -> None:
    assert feed(FrameReader(LIMIT), framed(*bodies), scratch_bytes) == bodies


def test_a_frame_that_arrives_whole_is_not_copied() -> None:
    scratch = memoryview(bytearray(64))
    stream = framed(b"hello")
    scratch[: len(stream)] = stream
    (frame,) = FrameReader(LIMIT).received(scratch, len(stream))
    assert frame.obj is scratch.obj


def test_nothing_is_held_between_frames() -> None:
    reader = FrameReader(LIMIT)
    feed(reader, framed(bytes(1000)))
    assert reader.held_bytes == 0


def test_frames_left_by_a_caller_that_stops_come_out_later() -> None:
    reader = FrameReader(LIMIT)
    scratch = memoryview(bytearray(64))
    stream = framed(b"one", b"two", b"three")
    scratch[: len(stream)] = stream
    frames = reader.received(scratch, len(stream))
    assert bytes(next(frames)) == b"one"
    del frames
    scratch[:] = bytes(64)  # the scratch is used by another connection meanwhile
    assert [bytes(frame) for frame in reader.pending()] == [b"two", b"three"]


@pytest.mark.parametrize("size", [-1, LIMIT + 1, 2**31 - 1])
def test_a_lie_about_a_length_is_refused_before_memory_is_taken(size: int) -> None:
    reader = FrameReader(LIMIT)
    with pytest.raises(FrameTooLarge):
        feed(reader, size.to_bytes(4, "big", signed=True))
    assert reader.held_bytes < 100


def test_a_large_announcement_alone_takes_little_memory() -> None:
    reader = FrameReader(100 << 20)
    feed(reader, (90 << 20).to_bytes(4, "big") + b"x")
    assert reader.held_bytes <= TRUSTED_BYTES


def test_memory_follows_what_arrives() -> None:
    body = bytes(range(256)) * 16 * 1024
    reader = FrameReader(len(body))
    stream = framed(body)
    assert feed(reader, stream[:-1], 64 << 10) == []
    assert reader.held_bytes == len(stream)
    assert feed(reader, stream[-1:]) == [body]
