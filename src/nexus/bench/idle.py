"""Many idle connections, held by a process of their own."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nexus.bench.clients import BenchFailed


@contextmanager
def idle_connections(bootstrap: str, count: int) -> Iterator[int]:
    """Hold `count` connections to a broker; gives how many it accepted and keeps."""
    code = f"from nexus.bench.idle import hold; hold({bootstrap!r}, {count})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("held "):
            raise BenchFailed(f"the connections could not be opened: {line!r}")
        yield int(line.split()[1])
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def hold(bootstrap: str, count: int) -> None:
    """Open the connections, say how many, and keep them until standard input ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, _, port = bootstrap.rpartition(":")
    sockets = [socket.create_connection((host, int(port)), timeout=30) for _ in range(count)]
    # An ApiVersions request on each, as every client begins: the broker has served them all.
    request = bytes.fromhex("0000000a 0012 0000 00000001 0000".replace(" ", ""))
    for one in sockets:
        one.sendall(request)
    alive = sum(1 for one in sockets if one.recv(4096))
    print(f"held {alive}", flush=True)
    sys.stdin.read()
