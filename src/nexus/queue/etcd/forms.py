"""The two forms of a value: one JSON message as it stands, or packed frames.

`etcdctl get` shows the first; the second is fast. A frame's first byte is zero (the length of a
value that fits etcd has it so), JSON's never is, so readers take both and need not be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nexus.queue.port import Headers, Message
from nexus.telemetry.content import JSON_TYPE
from nexus.telemetry.errors import FrameError
from nexus.telemetry.frame import Frame, pack_frames, unpack_frames

_JSON_HEADERS: Final[Headers] = (("content-type", JSON_TYPE.encode()),)


def pack(messages: Iterable[Message], now_ms: int) -> bytes:
    """Messages as one value."""
    return pack_frames((m[0], m[1], m[2], m[3] or now_ms) for m in messages)


def unpack(value: bytes) -> list[Frame]:
    """The messages in a value; FrameError if it is neither form."""
    if not value or value[0]:
        return [Frame(value, headers=_JSON_HEADERS)]
    return unpack_frames(value)


def unpack_or_raw(value: bytes) -> tuple[list[Frame], str]:
    """The same for readers who go on: what cannot be unpacked is one message, and why."""
    try:
        return unpack(value), ""
    except FrameError as error:
        return [Frame(value)], str(error)
