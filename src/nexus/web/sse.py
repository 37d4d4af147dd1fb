"""Server-sent events as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

RETRY_MS: Final = 2000
OPENING: Final = b"retry: %d\n\n" % RETRY_MS


def event(name: str, data: bytes, id_text: str = "") -> bytes:
    """One event; `data` has no line ends, which JSON text need not have."""
    place = f"id: {id_text}\n".encode() if id_text else b""
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), place, data)


def facts(name: str, values: Mapping[str, object], id_text: str = "") -> bytes:
    """An event whose data are a few values."""
    return event(name, json.dumps(values, separators=(",", ":")).encode(), id_text)


def heartbeat(id_text: str = "") -> bytes:
    """A sign of life; an id without data moves the client's place on, and shows it nothing."""
    place = f"id: {id_text}\n".encode() if id_text else b""
    return b": alive\n%b\n" % place
