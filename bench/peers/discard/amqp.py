"""AMQP 0.9.1: as much of the handshake as a publisher needs, and a confirm for every message."""

from __future__ import annotations

import struct

from peers.discard.connection import Discarding

_HEADER = struct.Struct(">BHI")
_METHOD, _CONTENT = 1, 2
_END = b"\xce"


def _frame(channel: int, body: bytes) -> bytes:
    return _HEADER.pack(_METHOD, channel, len(body)) + body + _END


def _method(number: tuple[int, int], *arguments: bytes) -> bytes:
    return struct.pack(">HH", *number) + b"".join(arguments)


def _long_text(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


_CAPABILITY = b"\x12publisher_confirmst\x01" + b"\x0abasic.nackt\x01"
_PROPERTIES = _long_text(b"\x0ccapabilitiesF" + _long_text(_CAPABILITY))
_START = _method((10, 10), b"\x00\x09", _PROPERTIES, _long_text(b"PLAIN"), _long_text(b"en_US"))
_TUNE = _method((10, 30), struct.pack(">HIH", 2047, 131072, 0))
# What a client asks, and what it is told.
_ANSWERS: dict[tuple[int, int], bytes] = {
    (10, 11): _TUNE,
    (10, 40): _method((10, 41), b"\x00"),
    (10, 50): _method((10, 51)),
    (20, 10): _method((20, 11), _long_text(b"")),
    (20, 40): _method((20, 41)),
    (85, 10): _method((85, 11)),
}


class Amqp(Discarding):
    """Frames; a message is a method, a header and as many bodies as it needs."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._messages = 0

    def take(self, data: bytes) -> tuple[int, bytes]:
        at, answers, before = 0, bytearray(), self._messages
        if not self._begun:
            if len(data) < 8:
                return 0, b""
            self._begun, at = True, 8
            answers += _frame(0, _START)
        channel = 0
        while at + _HEADER.size < len(data):
            kind, channel, length = _HEADER.unpack_from(data, at)
            body = at + _HEADER.size
            if body + length >= len(data):
                break
            if kind == _CONTENT:
                self._messages += 1
            elif kind == _METHOD:
                answer = _ANSWERS.get(struct.unpack_from(">HH", data, body))
                answers += _frame(channel, answer) if answer else b""
            at = body + length + 1
        if self._messages > before:
            answers += _frame(1, _method((60, 80), struct.pack(">QB", self._messages, 1)))
        return at, bytes(answers)
