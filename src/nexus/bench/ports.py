"""Ports for servers that a measurement or a test starts, and starts again."""

from __future__ import annotations

import random
import socket
from typing import Final

from nexus.bench.clients import BenchFailed

_PORTS: Final = (15_000, 32_000)
_TRIES: Final = 100


def free_port() -> int:
    """One that the system gives to nobody by itself, so that it stays free over a restart."""
    for _ in range(_TRIES):
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise BenchFailed("no port is free")
