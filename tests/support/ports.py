"""Free TCP ports on the loopback address, never handed out twice in one process."""

from __future__ import annotations

import socket

_taken: set[int] = set()


def free_port() -> int:
    """A port nobody listens on now; the system does not reuse it at once for `bind(0)`."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _taken:
            _taken.add(port)
            return port
