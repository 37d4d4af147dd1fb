"""MQTT 3.1.1: an acknowledgement for every connection, subscription and publish."""

from __future__ import annotations

from peers.discard.connection import Discarding

_CONNECT, _PUBLISH, _SUBSCRIBE = 1, 3, 8


class Mqtt(Discarding):
    """Packets: a kind, a length of one to four bytes, a body."""

    def take(self, data: bytes) -> tuple[int, bytes]:
        at, answers = 0, bytearray()
        while (found := _packet(data, at)) is not None:
            kind, body, at = data[at] >> 4, *found
            if kind == _PUBLISH:
                identity = body + 2 + int.from_bytes(data[body : body + 2])
                answers += b"\x40\x02" + data[identity : identity + 2]
            elif kind == _CONNECT:
                answers += b"\x20\x02\x00\x00"
            elif kind == _SUBSCRIBE:
                answers += b"\x90\x03" + data[body : body + 2] + b"\x01"
        return at, bytes(answers)


def _packet(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the packet's body begins and ends; None when it is not whole."""
    length = shift = 0
    for place in range(at + 1, min(at + 5, len(data))):
        length |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            end = place + 1 + length
            return (place + 1, end) if end <= len(data) else None
    return None
