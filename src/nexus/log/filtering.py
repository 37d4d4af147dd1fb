"""Leaves records out of a batch without touching the others: offsets and sequences stay."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from nexus.wire.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader, crc_of
from nexus.wire.compression import Codec
from nexus.wire.records import RecordKey, iter_keys, iter_records, recompress

_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_COUNT_AT: Final = 57
_YIELD_EVERY: Final = 128

Keep = Callable[[RecordKey], bool]


class Filtered(NamedTuple):
    """What is left of a batch, and how many records it lost."""

    batch: memoryview
    kept: int
    removed: int


def keys_of(batch: memoryview) -> Iterator[RecordKey]:
    """The keys of a batch, taking turns with other threads: this is slow work in the background."""
    for number, record in enumerate(iter_keys(batch)):
        if number % _YIELD_EVERY == 0:
            time.sleep(0)
        yield record


def filtered(batch: memoryview, header: BatchHeader, keep: Keep) -> Filtered:
    """The batch without the records that are not to be kept; the same bytes if all are."""
    codec = Codec(header.codec)
    plain = memoryview(recompress(batch, Codec.NONE)) if codec and header.count else batch
    body = bytearray()
    kept = 0
    spans = _spans(plain[HEADER_BYTES:])
    for record, span in zip(keys_of(plain), spans, strict=True):
        if keep(record):
            body += span
            kept += 1
    if kept == header.count:
        return Filtered(batch, kept, 0)
    rebuilt = memoryview(_rebuilt(plain, header, body, kept))
    if codec and kept:
        rebuilt = memoryview(recompress(rebuilt, codec))
    return Filtered(rebuilt, kept, header.count - kept)


def emptied(batch: memoryview, header: BatchHeader) -> memoryview:
    """The batch without its records: it still stands for its offsets and its sequences."""
    return memoryview(_rebuilt(batch, header, bytearray(), 0))


def _rebuilt(plain: memoryview, header: BatchHeader, body: bytearray, count: int) -> bytearray:
    out = bytearray(plain[:HEADER_BYTES]) + body
    struct.pack_into(">i", out, _LENGTH_AT, len(out) - LENGTH_PREFIX_BYTES)
    struct.pack_into(">h", out, _ATTRIBUTES_AT, header.attributes & ~0x7)
    struct.pack_into(">i", out, _COUNT_AT, count)
    latest = max((record.timestamp for record in iter_records(memoryview(out))), default=-1)
    struct.pack_into(">q", out, _MAX_TIMESTAMP_AT, latest)
    with memoryview(out) as view:
        struct.pack_into(">I", out, _CRC_AT, crc_of(view))
    return out


def _spans(records: memoryview) -> Iterator[memoryview]:
    """The bytes of each record, its length included; `iter_keys` has checked them beside."""
    at = 0
    while at < len(records):
        start, length, shift = at, 0, 0
        while True:
            byte = records[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += length >> 1
        yield records[start:at]
