"""What a fork does to clients: gRPC's threads and locks do not survive one.

A process forked from one that has opened a client, even if it closed it, hangs or crashes in
gRPC; so it is told instead. Processes that fork before (as Spark's workers are) and those started
by spawn are fine.
"""

from __future__ import annotations

import os

from nexus.etcd.errors import Closed


class _Process:
    """Whether this process has used gRPC, and whether it was forked from one that had."""

    def __init__(self) -> None:
        self.used = False
        self.spoilt = False

    def forked(self) -> None:
        self.spoilt = self.used


_process = _Process()
os.register_at_fork(after_in_child=_process.forked)


def claim_process() -> int:
    """This process's id, for a client that belongs to it from now on."""
    if _process.spoilt:
        raise Closed(
            "etcd: this process was forked from one that had a client, so it cannot have one;"
            " fork before a client is opened, or start processes by spawn"
        )
    _process.used = True
    return os.getpid()
