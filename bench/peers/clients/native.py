"""Load generators in C: built from `native/` by the compiler of this machine, called by ctypes.

A client in Python is often slower than the server that it loads. Where there is no compiler, or not
the library of a protocol, its client in Python does the work, and the table of systems says so.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from nexus.bench.clients import BenchFailed
from peers.clients.port import Lanes

_SOURCES: Final = Path(__file__).parents[1] / "native"
_LINKED: Final = {"nats": "nats", "amqp": "rabbitmq", "mqtt": "mosquitto", "redis": "hiredis"}
_FLAGS: Final = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
_WAIT_MS: Final = 60_000
_ROOM: Final = 4 << 20
_MOST: Final = 10_000


@cache
def library(protocol: str) -> ctypes.CDLL | None:
    """The generator of a protocol, built if need be; None where that cannot be done."""
    sources = [_SOURCES / f"{protocol}.c", *_SOURCES.glob("*.h")]
    stamp = max(source.stat().st_mtime_ns for source in sources)
    folder = Path(tempfile.gettempdir()) / f"nexus-bench-native-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    built = folder / f"{protocol}-{stamp}.so"
    if not built.exists() and not _build(sources[0], built, _LINKED[protocol]):
        return None
    return _declared(ctypes.CDLL(str(built)))


def generator(protocol: str, python: str) -> str:
    """What loads a system: the library in C, or the client in Python where there is none."""
    built = library(protocol)
    return f"{built.client_version().decode()} (C)" if built else f"{python} (Python)"


def _build(source: Path, built: Path, linked: str) -> bool:
    unfinished = built.with_suffix(f".{os.getpid()}")
    command = ["cc", *_FLAGS, "-o", str(unfinished), str(source), f"-l{linked}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except OSError:
        return False
    if done.returncode == 0:
        unfinished.rename(built)
    return done.returncode == 0


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    """As `load.h` has it; ctypes takes every result for an int unless told."""
    for name in ("last_error", "client_version"):
        getattr(found, name).restype = ctypes.c_char_p
    for name in ("sender_open", "receiver_open"):
        getattr(found, name).restype = ctypes.c_void_p
    for name in ("sender_send", "sender_flush", "sender_close", "receiver_take", "receiver_close"):
        getattr(found, name).argtypes = [ctypes.c_void_p, *_ARGUMENTS[name]]
    return found


_ARGUMENTS: Final[dict[str, list[Any]]] = {
    "sender_send": [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int],
    "sender_flush": [ctypes.c_int],
    "sender_close": [],
    "receiver_take": [
        *(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
    ],
    "receiver_close": [],
}


def _place(address: str) -> tuple[bytes, int]:
    host, _, port = address.rpartition(":")
    return host.encode(), int(port)


class NativeSender:
    """Equal messages at a time: they cross to C in one piece."""

    def __init__(self, built: ctypes.CDLL, lanes: Lanes, window: int) -> None:
        self._library = built
        self._lanes = [name.encode() for name in lanes.names()]
        self._sender = built.sender_open(*_place(lanes.address), window, int(lanes.prompt))
        if not self._sender:
            raise _failure(built)

    def send(self, values: Sequence[bytes], lane: int) -> None:
        joined, size = b"".join(values), len(values[0])
        self._check(
            self._library.sender_send(self._sender, self._lanes[lane], joined, size, len(values))
        )

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        self._check(self._library.sender_flush(self._sender, _WAIT_MS))

    def close(self) -> None:
        self._library.sender_close(self._sender)

    def _check(self, code: int) -> None:
        if code:
            raise _failure(self._library)


class NativeReceiver:
    """Messages come in one piece, with their sizes beside it."""

    def __init__(self, built: ctypes.CDLL, lanes: Lanes, number: int) -> None:
        self._library = built
        names = lanes.names()
        mine = [names[lane].encode() for lane in lanes.of_consumer(number)]
        own = f"{lanes.name}-c{number}".encode()
        self._receiver = built.receiver_open(
            *_place(lanes.address), own, (ctypes.c_char_p * len(mine))(*mine), len(mine)
        )
        if not self._receiver:
            raise _failure(built)
        self._room = ctypes.create_string_buffer(_ROOM)
        self._sizes = (ctypes.c_int * _MOST)()

    def receive(self, wait_s: float) -> list[bytes]:
        count = self._library.receiver_take(
            self._receiver, self._room, _ROOM, self._sizes, _MOST, int(wait_s * 1000)
        )
        if count < 0:
            raise _failure(self._library)
        sizes = self._sizes[:count]
        taken = ctypes.string_at(self._room, sum(sizes))
        values, start = [], 0
        for size in sizes:
            values.append(taken[start : start + size])
            start += size
        return values

    def close(self) -> None:
        self._library.receiver_close(self._receiver)


def _failure(built: ctypes.CDLL) -> BenchFailed:
    return BenchFailed(built.last_error().decode(errors="replace"))
