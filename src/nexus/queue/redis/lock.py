"""One import of a key at a time: a lock in Redis that ends by itself when nobody renews it.

It holds nobody up for long: of a process of this machine that is gone, it is taken over at once.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from nexus.queue.errors import QueueError
from nexus.queue.redis.client import RedisClient

LEASE_MS: Final = 10_000
_AGAIN_S: Final = 0.2
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES: Final = Path("/proc/self/ns/pid")
# Takes what is free, ours, or held by the one that is known to be gone.
_TAKE: Final = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] and held ~= ARGV[3] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
"""
_GIVE_BACK: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return false
"""


class Taken(QueueError):
    """Raised when another import has the key."""

    exit_code = 1


class Lock:
    """The right to import one key; `token` tells it from everyone else's."""

    def __init__(self, client: RedisClient, name: bytes) -> None:
        self.name = name
        self._client = client
        self.token = json.dumps({**_here(), "once": secrets.token_hex(8)}).encode()

    def acquire(self) -> None:
        """Wait until it ends, if its holder is gone; Taken once it is seen that it lives."""
        least = LEASE_MS
        while (holder := self._take()) is not None:
            left = self._client.ask("PTTL", self.name)
            if _is_gone(holder):
                self._take(holder)
            elif left > least:  # it was renewed
                raise Taken(
                    f"redis {self._client.url}: {_named(holder)} imports it now; one at a time"
                )
            else:
                least = min(least, left)
                time.sleep(_AGAIN_S)

    def renew(self) -> None:
        """Hold it for longer; Taken if somebody else has it."""
        holder = self._take()
        if holder is not None:
            raise Taken(f"redis {self._client.url}: {_named(holder)} has taken over")

    def release(self) -> None:
        """Safe to call twice."""
        self._client.script(_GIVE_BACK, [self.name], self.token)

    def _take(self, instead_of: bytes = b"") -> bytes | None:
        held: bytes | None = self._client.script(
            _TAKE, [self.name], self.token, LEASE_MS, instead_of
        )
        return held


def _here() -> dict[str, Any]:
    """Which process this is. `machine` is empty where nobody can tell from afar if it lives."""
    machine = ""
    with suppress(OSError):
        machine = f"{_BOOT.read_text().strip()} {_PROCESSES.readlink()}"
    return {"host": socket.gethostname(), "machine": machine, "pid": os.getpid()}


def _is_gone(holder: bytes) -> bool:
    try:
        said = json.loads(holder)
        if not said["machine"] or said["machine"] != _here()["machine"]:
            return False
        return not Path(f"/proc/{int(said['pid'])}").exists()
    except (ValueError, KeyError, TypeError):
        return False


def _named(holder: bytes) -> str:
    try:
        said = json.loads(holder)
        return f"process {said['pid']} on {said['host']}"
    except (ValueError, KeyError, TypeError):
        return "somebody else"
