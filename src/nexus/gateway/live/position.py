"""Where a client is in the queue, as the text of an event's id.

It is a place in the queue and not in a process, so that any gateway, also one that was started
again, can go on from it: of each partition the next offset, and the time at which that was so.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_VERSION: Final = 1
_TEXT_MAX: Final = 16 << 10
_NUMBER_BITS: Final = 63
_CHECK_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Position:
    """Everything before these offsets was seen, at this time."""

    time_ms: int
    offsets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def is_at_least(self, other: Position) -> bool:
        """Whether everything that the other has seen was seen here too."""
        return all(self.offsets.get(p, 0) >= offset for p, offset in other.offsets.items())


def encode_position(position: Position, topic: str) -> str:
    """An id for an event; short, and of letters, digits, dashes and underscores only."""
    body = bytearray([_VERSION])
    _add(body, position.time_ms)
    before = 0
    for partition, offset in sorted(position.offsets.items()):
        _add(body, partition - before)
        _add(body, offset)
        before = partition
    checked = bytes(body) + _check(bytes(body), topic)
    return base64.urlsafe_b64encode(checked).rstrip(b"=").decode()


def decode_position(text: str, topic: str) -> Position | None:
    """The position that an id stands for; None if it is none of this topic. Takes any text."""
    raw = _unpacked(text)
    body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
    if len(body) < 2 or body[0] != _VERSION or check != _check(body, topic):
        return None
    numbers = _numbers(body[1:])
    if numbers is None or len(numbers) % 2 == 0:
        return None
    time_ms, *pairs = numbers
    offsets: dict[int, int] = {}
    partition = 0
    for gap, offset in zip(pairs[::2], pairs[1::2], strict=True):
        partition += gap
        offsets[partition] = offset
    return Position(time_ms, offsets)


def _unpacked(text: str) -> bytes:
    if len(text) > _TEXT_MAX or not text.isascii():
        return b""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return b""


def _check(body: bytes, topic: str) -> bytes:
    return zlib.crc32(body, zlib.crc32(topic.encode())).to_bytes(_CHECK_BYTES, "big")


def _add(body: bytearray, number: int) -> None:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    while number > 0x7F:
        body.append(number & 0x7F | 0x80)
        number >>= 7
    body.append(number)


def _numbers(data: bytes) -> list[int] | None:
    numbers: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > _NUMBER_BITS:
            return None
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    return numbers if shift == 0 else None
