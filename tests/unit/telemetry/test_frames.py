"""The standalone binary form of a message."""

import io
import random
from contextlib import suppress
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.telemetry.errors import FrameError
from nexus.telemetry.frame import (
    MAX_FRAME_BYTES,
    Frame,
    pack_frame,
    pack_frames,
    read_frames,
    unpack_frame,
    unpack_frames,
)

frames = st.builds(
    Frame,
    value=st.binary(max_size=60),
    key=st.none() | st.binary(max_size=20),
    headers=st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.binary(max_size=9)
        ),
        max_size=4,
    ).map(tuple),
    timestamp_ms=st.integers(-(2**63), 2**63 - 1),
    attributes=st.integers(0, 255),
)
ONE = Frame(b"value", b"key", (("content-type", b"application/json"),), 1_752_871_354_000)


@given(st.lists(frames, max_size=5))
def test_any_frames_survive(given_frames: list[Frame]) -> None:
    packed = b"".join(map(pack_frame, given_frames))
    assert unpack_frames(packed) == given_frames
    assert [frame for _, frame in read_frames(io.BytesIO(packed))] == given_frames


@given(st.lists(frames, max_size=5))
def test_many_frames_are_packed_as_each_of_them_is(given_frames: list[Frame]) -> None:
    twice = [frame for frame in given_frames for _ in range(2)]
    packed = pack_frames((f.value, f.key, f.headers, f.timestamp_ms) for f in twice)
    plain = [Frame(f.value, f.key, f.headers, f.timestamp_ms) for f in twice]
    assert packed == b"".join(map(pack_frame, plain))


def test_a_frame_is_laid_out_as_documented() -> None:
    packed = pack_frame(ONE)
    assert packed[:4] == (len(packed) - 4).to_bytes(4, "big")
    assert packed[8:10] == b"\x01\x00"
    assert packed[10:18] == ONE.timestamp_ms.to_bytes(8, "big")
    assert packed[18:] == (
        b"\x00\x00\x00\x03key\x00\x00\x00\x05value"
        b"\x00\x00\x00\x01\x00\x00\x00\x0ccontent-type\x00\x00\x00\x10application/json"
    )


def test_no_key_is_not_an_empty_key() -> None:
    assert unpack_frames(pack_frame(Frame(b"v"))) != unpack_frames(pack_frame(Frame(b"v", b"")))


def test_a_flipped_bit_is_noticed_wherever_it_is() -> None:
    packed = pack_frame(ONE)
    for at in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(FrameError):
            unpack_frame(bytes(damaged))


def test_a_torn_tail_ends_the_reading_where_it_was_whole() -> None:
    packed = [pack_frame(Frame(bytes([n]) * n)) for n in range(5)]
    whole = b"".join(packed)
    for cut in range(len(whole) - len(packed[-1]), len(whole)):
        found = list(read_frames(io.BytesIO(whole[:cut])))
        assert len(found) == 4
        assert found[-1][0] == len(whole) - len(packed[-1])


def test_a_buffer_must_hold_whole_frames_only() -> None:
    packed = pack_frame(ONE)
    for cut in range(1, len(packed)):
        with pytest.raises(FrameError, match="torn at"):
            unpack_frames(packed[:cut])


def test_garbage_after_the_last_frame_is_not_read() -> None:
    rng = random.Random(3)
    whole = pack_frame(ONE)
    for size in (1, 8, 100):
        found = list(read_frames(io.BytesIO(whole + rng.randbytes(size))))
        assert found == [(len(whole), ONE)]


def test_a_whole_frame_of_a_later_version_is_an_error_not_a_tail() -> None:
    body = bytearray(pack_frame(ONE)[8:])
    body[0] = 9
    later = (len(body) + 4).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body
    with pytest.raises(FrameError, match="version 9"):
        list(read_frames(io.BytesIO(later)))


def test_reading_goes_on_from_a_position() -> None:
    packed = pack_frame(ONE) * 3
    positions = [position for position, _ in read_frames(io.BytesIO(packed))]
    file = io.BytesIO(packed)
    file.seek(positions[0])
    assert [position for position, _ in read_frames(file)] == positions[1:]


def test_lengths_that_cannot_be_are_refused_before_memory_is_taken() -> None:
    for length in (0, 5, MAX_FRAME_BYTES + 1, 2**32 - 1):
        with pytest.raises(FrameError, match="cannot have"):
            unpack_frame(length.to_bytes(4, "big") + bytes(100))


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_but_a_frame_error(data: bytes) -> None:
    with suppress(FrameError):
        unpack_frames(data)
