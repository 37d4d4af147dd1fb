"""Redis's protocol: an id for every XADD, +OK for the rest."""

from __future__ import annotations

from peers.discard.connection import Discarding

_ID = b"$3\r\n1-1\r\n"


class Resp(Discarding):
    """Commands are arrays of lengths and bytes."""

    def take(self, data: bytes) -> tuple[int, bytes]:
        at, answers = 0, bytearray()
        while (found := _command(data, at)) is not None:
            at, name = found
            answers += _ID if name == b"XADD" else b"+OK\r\n"
        return at, bytes(answers)


def _command(data: bytes, at: int) -> tuple[int, bytes] | None:
    """Where the command that begins here ends, and its name; None when it is not whole."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    words, name = int(data[at + 1 : end]), b""
    at = end + 2
    for word in range(words):
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        length = int(data[at + 1 : end])
        at = end + 2 + length + 2
        if at > len(data):
            return None
        name = name if word else data[end + 2 : at - 2]
    return at, name
