"""The standalone binary form of a message, for values that are packed outside of a broker.

Big-endian: 4 bytes length (of what follows), 4 bytes CRC32 (of what follows it), 1 byte magic,
1 byte attributes, 8 bytes timestamp in ms, 4 + n bytes key, 4 + n bytes value, 4 bytes number of
headers, then each header's name and value, 4 + n bytes both. A length of -1 is no key.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final
from zlib import crc32

from nexus.telemetry.errors import FrameError

MAGIC: Final = 1
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
MAX_HEADERS: Final = 1024

_PREFIX: Final = struct.Struct(">II")
_HEAD: Final = struct.Struct(">BBq")
_LENGTH: Final = struct.Struct(">i")
_START: Final = struct.Struct(">IIBBqi")  # prefix, head and the key's length
_NO_KEY: Final = _LENGTH.pack(-1)
_SMALLEST: Final = 4 + _HEAD.size + 3 * _LENGTH.size  # CRC, head, no key, empty value, no headers


@dataclass(frozen=True, slots=True)
class Frame:
    """A message as it stands in a frame."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0
    attributes: int = 0


def pack_frame(frame: Frame) -> bytes:
    """The bytes of a frame, its length and checksum included."""
    parts = [
        _HEAD.pack(MAGIC, frame.attributes, frame.timestamp_ms),
        _sized_key(frame.key),
        _sized(frame.value),
        _headers(frame.headers),
    ]
    body = b"".join(parts)
    if len(body) + 4 > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(body)} bytes is too large")
    return _PREFIX.pack(len(body) + 4, crc32(body)) + body


def pack_frames(
    messages: Iterable[tuple[bytes, bytes | None, tuple[tuple[str, bytes], ...], int]],
) -> bytes:
    """Frames of (value, key, headers, timestamp), one behind the other: for many small ones.

    What is the same as in the frame before is encoded once.
    """
    parts: list[bytes] = []
    last_headers: tuple[tuple[str, bytes], ...] | None = None
    last_ms, tail = None, b""
    heads: dict[bytes | None, bytes] = {}  # by key, for the timestamp before
    for value, key, headers, timestamp_ms in messages:
        if headers is not last_headers:
            last_headers, tail = headers, _headers(headers)
        if timestamp_ms != last_ms:
            last_ms = timestamp_ms
            heads.clear()
        head = heads.get(key)
        if head is None:
            head = heads[key] = _HEAD.pack(MAGIC, 0, timestamp_ms) + _sized_key(key)
        body = b"".join((head, _LENGTH.pack(len(value)), value, tail))
        if len(body) + 4 > MAX_FRAME_BYTES:
            raise FrameError(f"a frame of {len(body)} bytes is too large")
        parts += (_PREFIX.pack(len(body) + 4, crc32(body)), body)
    return b"".join(parts)


def unpack_frames(buffer: bytes | memoryview) -> list[Frame]:
    """All the frames in a buffer, which must hold nothing but whole ones."""
    data, view = bytes(buffer), memoryview(buffer)
    at, frames = 0, []
    tail = _LENGTH.pack(0)
    headers: tuple[tuple[str, bytes], ...] = ()
    while at < len(data):
        frame, end = _like_before(data, view, at, tail, headers)
        if frame is None:
            # Other headers than the one before, or something is wrong: look closely.
            frame, end = unpack_frame(view, at)
            tail, headers = _headers(frame.headers), frame.headers
        frames.append(frame)
        at = end
    return frames


def _like_before(
    data: bytes, view: memoryview, at: int, tail: bytes, headers: tuple[tuple[str, bytes], ...]
) -> tuple[Frame | None, int]:
    """A frame in perfect order whose headers are these, or None: many frames have the same."""
    if len(data) - at < _START.size:
        return None, at
    length, checksum, magic, attributes, timestamp_ms, key_size = _START.unpack_from(data, at)
    value_at = at + _START.size + max(key_size, 0) + _LENGTH.size
    end = at + 4 + length
    tail_at = end - len(tail)
    if not value_at <= tail_at <= end <= len(data) or magic != MAGIC or key_size < -1:
        return None, at
    (value_size,) = _LENGTH.unpack_from(data, value_at - _LENGTH.size)
    if value_at + value_size != tail_at or data[tail_at:end] != tail:
        return None, at
    if length > MAX_FRAME_BYTES or crc32(view[at + _PREFIX.size : end]) != checksum:
        return None, at
    key = None if key_size < 0 else data[at + _START.size : value_at - _LENGTH.size]
    return Frame(data[value_at:tail_at], key, headers, timestamp_ms, attributes), end


def unpack_frame(buffer: bytes | memoryview, at: int = 0) -> tuple[Frame, int]:
    """One frame from a position, and the position after it."""
    view = memoryview(buffer)
    if len(view) - at < _PREFIX.size:
        raise FrameError(f"torn at {at}: {len(view) - at} bytes are no frame")
    length, checksum = _PREFIX.unpack_from(view, at)
    _check_length(length, at)
    end = at + 4 + length
    if end > len(view):
        raise FrameError(f"torn at {at}: {len(view) - at} bytes of {length + 4}")
    return _body(view[at + _PREFIX.size : end], checksum, at), end


def read_frames(file: BinaryIO) -> Iterator[tuple[int, Frame]]:
    """The frames of a file with the position after each; ends at a torn or damaged tail.

    What a crash left half written was never acknowledged, so the last position given is where
    to cut and go on. A whole frame of a version that is not known is an error, not a tail.
    """
    at = file.tell()
    while len(prefix := file.read(_PREFIX.size)) == _PREFIX.size:
        length, checksum = _PREFIX.unpack(prefix)
        if not _SMALLEST <= length <= MAX_FRAME_BYTES:
            return
        body = file.read(length - 4)
        if len(body) < length - 4 or crc32(body) != checksum:
            return
        frame = _body(memoryview(body), checksum, at)
        at += 4 + length
        yield at, frame


def _check_length(length: int, at: int) -> None:
    if not _SMALLEST <= length <= MAX_FRAME_BYTES:
        raise FrameError(f"damaged at {at}: a frame cannot have {length} bytes")


def _body(body: memoryview, checksum: int, at: int) -> Frame:
    if crc32(body) != checksum:
        raise FrameError(f"damaged at {at}: the checksum does not fit")
    magic, attributes, timestamp_ms = _HEAD.unpack_from(body)
    if magic != MAGIC:
        raise FrameError(f"a frame of version {magic} at {at} is not known")
    try:
        return _fields(body, attributes, timestamp_ms)
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"malformed at {at}: {error}") from error


def _fields(body: memoryview, attributes: int, timestamp_ms: int) -> Frame:
    key, at = _blob(body, _HEAD.size)
    value, at = _blob(body, at)
    count, at = _LENGTH.unpack_from(body, at)[0], at + _LENGTH.size
    if value is None or not 0 <= count <= MAX_HEADERS:
        raise FrameError("malformed: no value, or headers that cannot be that many")
    headers = []
    for _ in range(count):
        name, at = _blob(body, at)
        header, at = _blob(body, at)
        headers.append(((name or b"").decode(), header or b""))
    if at != len(body):
        raise FrameError(f"malformed: {len(body) - at} bytes are left over")
    return Frame(value, key, tuple(headers), timestamp_ms, attributes)


def _blob(body: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH.unpack_from(body, at)
    at += _LENGTH.size
    if size == -1:
        return None, at
    if not 0 <= size <= len(body) - at:
        raise FrameError(f"malformed: a part of {size} bytes where {len(body) - at} are left")
    return bytes(body[at : at + size]), at + size


def _headers(headers: tuple[tuple[str, bytes], ...]) -> bytes:
    if len(headers) > MAX_HEADERS:
        raise FrameError(f"a frame with {len(headers)} headers is too large")
    parts = [_sized(name.encode()) + _sized(value) for name, value in headers]
    return _LENGTH.pack(len(headers)) + b"".join(parts)


def _sized_key(key: bytes | None) -> bytes:
    return _NO_KEY if key is None else _sized(key)


def _sized(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data
