"""How large an Arrow stream gets when it is unpacked, told from its headers alone.

A message of a few kilobytes can claim gigabytes; this is asked before any memory is taken.
"""

import struct
from typing import Final

import pyarrow as pa

from nexus.telemetry.errors import UnreadableMessage

MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
MAX_BATCHES: Final = 1024

_UINT16: Final = struct.Struct("<H")
_INT32: Final = struct.Struct("<i")
_UINT32: Final = struct.Struct("<I")
_INT64: Final = struct.Struct("<q")
_BUFFER: Final = struct.Struct("<qq")

# Which field of its flatbuffer table each of these is.
_MESSAGE_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1
_BATCH_LENGTH, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3


def check_unpacked_size(value: bytes, max_rows: int) -> None:
    """Raise UnreadableMessage if a stream's batches are too long, too many or unpack too large."""
    reader = pa.ipc.MessageReader.open_stream(value)
    unpacked = batches = 0
    while (message := _next(reader)) is not None:
        if message.type == "schema":
            continue
        rows, size = _measured(message)
        unpacked, batches = unpacked + size, batches + 1
        if message.type == "record batch" and rows > max_rows:
            raise UnreadableMessage(f"more than {max_rows} readings in one message")
        if unpacked > MAX_UNPACKED_BYTES or batches > MAX_BATCHES:
            raise UnreadableMessage(f"unpacks to more than {MAX_UNPACKED_BYTES} bytes")


def _next(reader: pa.ipc.MessageReader) -> pa.ipc.Message | None:
    try:
        return reader.read_next_message()
    except StopIteration:
        return None


def _measured(message: pa.ipc.Message) -> tuple[int, int]:
    """The rows of a batch, and the bytes of its buffers when they are unpacked."""
    metadata, body = memoryview(message.metadata), memoryview(message.body or b"")
    try:
        batch = _follow(metadata, _root(metadata), _MESSAGE_HEADER)
        if message.type == "dictionary":
            batch = _follow(metadata, batch, _DICTIONARY_DATA)
        at = _field(metadata, batch, _BATCH_LENGTH)
        rows = _INT64.unpack_from(metadata, at)[0] if at else 0
        return rows, _buffers(metadata, batch, body)
    except struct.error as error:
        raise UnreadableMessage(f"no Arrow stream of readings: {error}") from error


def _buffers(metadata: memoryview, batch: int, body: memoryview) -> int:
    if not _field(metadata, batch, _BATCH_BUFFERS):
        return 0
    start = _follow(metadata, batch, _BATCH_BUFFERS)
    compressed = bool(_field(metadata, batch, _BATCH_COMPRESSION))
    total = 0
    for number in range(_UINT32.unpack_from(metadata, start)[0]):
        offset, length = _BUFFER.unpack_from(metadata, start + 4 + number * _BUFFER.size)
        if compressed and length >= _INT64.size:
            (claimed,) = _INT64.unpack_from(body, offset)
            length = max(length, claimed)  # -1 says that this one is not compressed
        total += length
    return total


def _root(data: memoryview) -> int:
    return int(_UINT32.unpack_from(data, 0)[0])


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a table's field stands; 0 if it is left out."""
    vtable = table - _INT32.unpack_from(data, table)[0]
    (size,) = _UINT16.unpack_from(data, vtable)
    place = 4 + 2 * number
    if place >= size:
        return 0
    (offset,) = _UINT16.unpack_from(data, vtable + place)
    return table + offset if offset else 0


def _follow(data: memoryview, table: int, number: int) -> int:
    """Where the table or vector stands that a field points at."""
    at = _field(data, table, number)
    if not at:
        raise struct.error("a part of the header is missing")
    return at + int(_UINT32.unpack_from(data, at)[0])
