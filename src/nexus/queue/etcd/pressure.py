"""How near the database is to its quota, so that publishers stop before etcd goes read-only.

What counts is what is in use: pages that a compaction has freed are filled again. The file itself
never shrinks but by a defragmentation, and etcd stops at its size; so it has a bound of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nexus.etcd import Client, EtcdConfig, EtcdError, Status, Unavailable
from nexus.settings.units import format_size

_log: Final = logging.getLogger(__name__)
DEFAULT_QUOTA_BYTES: Final = 2 << 30
FULL_AT: Final = 0.85  # of the quota, in use
FILE_FULL_AT: Final = 0.95
_ROOM_AGAIN: Final = 0.05  # so much less must be in use before more is taken
LOOK_S: Final = 1.0
_SHOWN_S: Final = 0.5  # etcd writes its database some times a second: what it tells is as old
_GROWTH: Final = 1.3  # what a byte that is put takes in the database
NO_SPACE: Final = (
    "etcd is at its quota and takes nothing (NOSPACE): nexus queue doctor says what to do"
)
_METRIC: Final = re.compile(rb"^etcd_server_quota_backend_bytes\s+(\S+)", re.MULTILINE)
_ASK_S: Final = 2.0
_ANSWER_S: Final = 1.0
_METRICS_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Room:
    """The fullest member's database against the quota; `quota_bytes` 0 is none."""

    db_bytes: int
    in_use_bytes: int
    quota_bytes: int

    @property
    def used(self) -> float:
        """The share of the quota that is in use."""
        return self.in_use_bytes / self.quota_bytes if self.quota_bytes else 0.0

    def full(self, more_bytes: int = 0) -> str:
        """Why nothing more should be put, if `more_bytes` came on top; empty while all is well."""
        if not self.quota_bytes:
            return ""
        quota = format_size(self.quota_bytes)
        if self.in_use_bytes + more_bytes >= FULL_AT * self.quota_bytes:
            return (
                f"etcd's database is at {self.used:.0%} of its quota of {quota}, and nothing is put"
                f" beyond {FULL_AT:.0%} until messages are taken out and their history is compacted"
            )
        if self.db_bytes + more_bytes >= FILE_FULL_AT * self.quota_bytes:
            return (
                f"etcd's database file is at {self.db_bytes / self.quota_bytes:.0%} of its quota of"
                f" {quota}, much of it free inside: run nexus queue doctor --recover"
            )
        return ""


async def look(client: Client, quota_bytes: int) -> Room:
    """The sizes now, of the members that answer; EtcdError when none does."""
    asked = [_status(client, endpoint) for endpoint in client.maintenance.endpoints]
    statuses = [status for status in await asyncio.gather(*asked) if status is not None]
    if not statuses:
        raise Unavailable(f"etcd {','.join(client.maintenance.endpoints)}: nobody tells its size")
    return Room(
        max(status.db_bytes for status in statuses),
        max(status.db_in_use_bytes for status in statuses),
        quota_bytes,
    )


async def _status(client: Client, endpoint: str) -> Status | None:
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await client.maintenance.status(endpoint)
    except (EtcdError, TimeoutError):
        return None


async def quota_of(config: EtcdConfig, told: int | None = None) -> int:
    """The quota in bytes: as told, else as etcd's metrics say, else etcd's default; 0 is none."""
    if told is not None:
        return told
    for endpoint in config.endpoints:
        found = await asyncio.to_thread(_asked, config, endpoint)
        if found is not None:
            return found
    return DEFAULT_QUOTA_BYTES


def _asked(config: EtcdConfig, endpoint: str) -> int | None:
    """What the metrics page on an endpoint says; None where there is none."""
    scheme, context = ("http", None) if config.tls is None else ("https", _context(config))
    try:
        request = urllib.request.Request(f"{scheme}://{endpoint}/metrics")
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*handlers).open(request, timeout=_ASK_S) as answer:
            return quota_in(answer.read(_METRICS_BYTES))
    except (OSError, ValueError):
        return None


def quota_in(page: bytes) -> int | None:
    """The quota that a page of etcd's metrics tells; 0 is none, None is that it does not tell."""
    found = _METRIC.search(page)
    if found is None:
        return None
    try:
        quota = int(float(found[1]))
    except ValueError:
        return None
    return DEFAULT_QUOTA_BYTES if quota == 0 else max(quota, 0)


def _context(config: EtcdConfig) -> ssl.SSLContext:
    assert config.tls is not None
    context = ssl.create_default_context(cafile=config.tls.ca)
    if config.tls.cert is not None:
        context.load_cert_chain(config.tls.cert, config.tls.key)
    context.check_hostname = not config.tls.server_name  # urllib cannot be told another name
    return context


class Gate:
    """Lets transactions through while there is room; one for all that an event loop publishes."""

    def __init__(
        self,
        client: Client,
        quota_bytes: int,
        tell: Callable[[str], None],
        *,
        every_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem = ""  # why nothing passes now
        self._client, self._quota_bytes, self._tell = client, quota_bytes, tell
        self._every_s, self._clock = every_s, clock
        self._room = Room(0, 0, quota_bytes)
        self._sent: deque[tuple[float, int]] = deque()  # what the sizes may not show yet
        self._sent_bytes = 0
        self._asked_bytes = 0  # for which there was no room
        self._refused_at = -every_s
        self._open, self._hurry = asyncio.Event(), asyncio.Event()
        self._open.set()

    async def passing(self, size: int) -> None:
        """Returns when so many bytes may be put; they count as put then."""
        size = int(size * _GROWTH)
        while not self._has_room(size):
            await self._open.wait()
        self._sent.append((self._clock(), size))
        self._sent_bytes += size

    def refused(self) -> None:
        """etcd said NOSPACE: nobody passes for a while."""
        self._refused_at = self._clock()
        self._shut(NO_SPACE)

    async def look(self) -> None:
        """See how full it is, and open or shut."""
        began = self._clock()
        # Who cannot be asked is not full: the transactions themselves will tell.
        with suppress(EtcdError):
            self._room = await look(self._client, self._quota_bytes)
        self._forget(began - _SHOWN_S)
        was_refused = self._clock() - self._refused_at < self._every_s
        again = int(_ROOM_AGAIN * self._quota_bytes) if self.problem else 0
        wanted = self._sent_bytes + self._asked_bytes + again
        problem = self._room.full(wanted) or (NO_SPACE if was_refused else "")
        if problem:
            self._shut(problem)
        else:
            self._reopen()

    async def watch(self) -> None:
        """Look now and then, and at once when much was put; runs until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._hurry.wait()
            self._hurry.clear()
            await self.look()

    def _has_room(self, size: int) -> bool:
        if self._open.is_set() and self._room.full(self._sent_bytes + size):
            # Perhaps only because nobody has looked for a while.
            self._asked_bytes = size
            self._open.clear()
            self._hurry.set()
        return self._open.is_set()

    def _forget(self, until: float) -> None:
        while self._sent and self._sent[0][0] < until:
            self._sent_bytes -= self._sent.popleft()[1]

    def _shut(self, problem: str) -> None:
        if not self.problem:
            _log.warning("nothing is published for now: %s", problem)
        self.problem = problem
        self._open.clear()
        self._tell(problem)

    def _reopen(self) -> None:
        if self.problem:
            _log.info("etcd has room again: publishing goes on")
        self.problem, self._asked_bytes = "", 0
        self._open.set()
