"""The standalone binary form of a message, for values that are packed outside of a broker.

Big-endian: 4 bytes length (of what follows), 4 bytes CRC32 (of what follows it), 1 byte magic,
1 byte attributes, 8 bytes timestamp in ms, 4 + n bytes key, 4 + n bytes value, 4 bytes number of
headers, then each header's name and value, 4 + n bytes both. A length of -1 is no key.
"""

import struct
from collections.abc import Iterator
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
        _LENGTH.pack(-1) if frame.key is None else _sized(frame.key),
        _sized(frame.value),
        _LENGTH.pack(len(frame.headers)),
    ]
    for name, value in frame.headers:
        parts += [_sized(name.encode()), _sized(value)]
    body = b"".join(parts)
    if len(body) + 4 > MAX_FRAME_BYTES or len(frame.headers) > MAX_HEADERS:
        raise FrameError(f"a frame of {len(body)} bytes is too large")
    return _PREFIX.pack(len(body) + 4, crc32(body)) + body


def unpack_frames(buffer: bytes | memoryview) -> list[Frame]:
    """All the frames in a buffer, which must hold nothing but whole ones."""
    view, at, frames = memoryview(buffer), 0, []
    while at < len(view):
        frame, at = unpack_frame(view, at)
        frames.append(frame)
    return frames


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


def _sized(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data
