"""The four codecs of record batches, with a limit on what may come out.

`decompress` learns from the compressed bytes how much they can hold before it takes memory, and
never takes more than the limit; rubbish in gives CorruptMessage, a bomb gives DecompressionBomb.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final

import cramjam

from nexus.wire.errors import CorruptMessage, ErrorCode, ProtocolError

Data = bytes | bytearray | memoryview


class Codec(IntEnum):
    """How a batch's records are compressed; the numbers are those in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionBomb(ProtocolError):
    """Raised when compressed data would unpack to more than its limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE


def compress(codec: Codec, data: Data) -> bytes:
    """The data in the form of each codec that every client reads."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, wbits=_GZIP_WBITS)
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))
        case Codec.LZ4:
            return _lz4_frame(memoryview(data))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL))


def decompress(codec: Codec, data: Data, limit: int) -> memoryview:
    """What was compressed, at most `limit` bytes of it."""
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            _refuse_above(limit, len(view))
            return view
        case Codec.GZIP:
            return _gunzip(view, limit)
        case Codec.SNAPPY:
            return _unsnap(view, limit)
        case Codec.LZ4:
            return _unpack(cramjam.lz4.decompress_into, view, _lz4_bound(view, limit), limit)
        case Codec.ZSTD:
            return _unpack(cramjam.zstd.decompress_into, view, _zstd_bound(view, limit), limit)


def _refuse_above(limit: int, size: int) -> None:
    if size > limit:
        raise DecompressionBomb(f"compressed records unpack to more than {limit} bytes")


# What the decoders say when the output does not fit; every other failure is bad input.
_OUTPUT_FULL: Final = "failed to write whole buffer"


def _unpack(
    decoder: Callable[[memoryview, bytearray], int], data: memoryview, bound: int, limit: int
) -> memoryview:
    """Run a streaming decoder into a buffer for the most that the data can hold, or the limit."""
    out = bytearray(min(bound, limit))
    try:
        size = decoder(data, out)
    except cramjam.DecompressionError as error:
        if bound > limit and _OUTPUT_FULL in str(error):
            _refuse_above(limit, bound)
        raise CorruptMessage(f"compressed records cannot be read: {error}") from None
    return memoryview(out)[:size]


def _number(data: memoryview, at: int, size: int) -> int:
    """A little-endian number, which has to be there."""
    if at + size > len(data):
        raise CorruptMessage("compressed records are cut short")
    return int.from_bytes(data[at : at + size], "little")


# gzip ---------------------------------------------------------------------------------------

_GZIP_WBITS: Final = 31
_GZIP_LEAST_BYTES: Final = 18
_DEFLATE_RATIO: Final = 1032


def _gunzip(data: memoryview, limit: int) -> memoryview:
    """One gzip member, which ends by saying how long its content is."""
    if len(data) < _GZIP_LEAST_BYTES:
        raise CorruptMessage("gzip data is cut short")
    size = _number(data, len(data) - 4, 4)
    if size > _DEFLATE_RATIO * len(data):
        raise CorruptMessage("gzip data lies about its length")
    _refuse_above(limit, size)
    content = _unpack(cramjam.gzip.decompress_into, data, size, limit)
    if len(content) != size:
        raise CorruptMessage("gzip data lies about its length")
    return content


# snappy -------------------------------------------------------------------------------------

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
# A three-byte copy makes 64 bytes: no snappy block grows more than this.
_SNAPPY_RATIO: Final = 22


def _unsnap(data: memoryview, limit: int) -> memoryview:
    """Raw snappy, or blocks of it in the framing of xerial, which Java's clients send."""
    framed = bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
    blocks = list(_xerial_blocks(data)) if framed else [data]
    sizes = [_snappy_size(block) for block in blocks]
    _refuse_above(limit, sum(sizes))
    out = memoryview(bytearray(sum(sizes)))
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        _unsnap_block(block, out[at : at + size])
        at += size
    return out


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    at = _XERIAL_HEADER_BYTES
    if len(data) < at:
        raise CorruptMessage("snappy data is cut short")
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if not at + 4 < end <= len(data):
            raise CorruptMessage("a snappy block is cut short")
        yield data[at + 4 : end]
        at = end


def _snappy_size(block: memoryview) -> int:
    if not block:
        raise CorruptMessage("snappy data is empty")
    try:
        size = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"compressed records cannot be read: {error}") from None
    if size > _SNAPPY_RATIO * len(block):
        raise CorruptMessage("snappy data lies about its length")
    return size


def _unsnap_block(block: memoryview, out: memoryview) -> None:
    try:
        cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"compressed records cannot be read: {error}") from None


# lz4 ----------------------------------------------------------------------------------------

_LZ4_MAGIC: Final = 0x184D2204
# Independent blocks of at most 64 KiB, no checksums (the batch has its own), header checksum:
# what Java's clients write. They refuse linked blocks, which the library's own frames have.
_LZ4_HEADER: Final = _LZ4_MAGIC.to_bytes(4, "little") + b"\x60\x40\x82"
_LZ4_END: Final = bytes(4)
_LZ4_BLOCK_BYTES: Final = 1 << 16
_LZ4_STORED: Final = 1 << 31
_LZ4_BLOCK_CHECKSUM: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_DICTIONARY: Final = 0x01
_LZ4_RATIO: Final = 255


def _lz4_frame(data: memoryview) -> bytes:
    parts = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(plain) | _LZ4_STORED).to_bytes(4, "little"), bytes(plain))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _lz4_bound(data: memoryview, limit: int) -> int:
    """The most that the frames can hold: every block full, but none above the format's ratio."""
    at = bound = 0
    while at < len(data) and bound <= limit:
        if _number(data, at, 4) != _LZ4_MAGIC:
            raise CorruptMessage("lz4 data does not begin with a frame")
        size, at = _lz4_frame_bound(data, at)
        bound += size
    return bound


def _lz4_frame_bound(data: memoryview, at: int) -> tuple[int, int]:
    """The most that the frame at a position can hold, and where it ends."""
    flags, block_code = _number(data, at + 4, 1), _number(data, at + 5, 1) >> 4 & 7
    if block_code < 4:
        raise CorruptMessage("an lz4 frame has an unknown block size")
    full = 1 << (8 + 2 * block_code)
    checksum = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    at += 7 + (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)
    bound = 0
    while block := _number(data, at, 4):
        size = block & ~_LZ4_STORED
        bound += min(full, size * _LZ4_RATIO)
        at += 4 + size + checksum
    return bound, at + 4 + (4 if flags & _LZ4_CONTENT_CHECKSUM else 0)


# zstd ---------------------------------------------------------------------------------------

_ZSTD_LEVEL: Final = 3
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_BLOCK_BYTES: Final = 1 << 17
_ZSTD_SINGLE_SEGMENT: Final = 0x20
_ZSTD_CHECKSUM: Final = 0x04
_ZSTD_RLE: Final = 1
_ZSTD_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)


def _zstd_bound(data: memoryview, limit: int) -> int:
    """The most that the frames can hold: every block full, or what a frame says of itself.

    A frame may also declare a window of up to 128 MiB (levels 20 to 22 do). The decoder reserves
    that much address space, but touches only what it fills.
    """
    at = bound = 0
    while at < len(data) and bound <= limit:
        magic = _number(data, at, 4)
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            at += 8 + _number(data, at + 4, 4)
        elif magic == _ZSTD_MAGIC:
            size, at = _zstd_frame_bound(data, at + 4)
            bound += size
        else:
            raise CorruptMessage("zstd data does not begin with a frame")
    return bound


def _zstd_frame_bound(data: memoryview, at: int) -> tuple[int, int]:
    """The most that the frame whose descriptor is at a position can hold, and where it ends."""
    descriptor = _number(data, at, 1)
    single = bool(descriptor & _ZSTD_SINGLE_SEGMENT)
    at += 1 + (0 if single else 1) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    width = _ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single else 0)
    content = _number(data, at, width) + (256 if width == 2 else 0)
    at += width
    bound = last = 0
    while not last:
        block = _number(data, at, 3)
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        bound += _ZSTD_BLOCK_BYTES
        at += 3 + (1 if kind == _ZSTD_RLE else size)
    return (min(content, bound) if width else bound), at + (4 if descriptor & _ZSTD_CHECKSUM else 0)
