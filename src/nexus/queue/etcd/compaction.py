"""When etcd forgets its history: a little after it was made, on the word of whoever leads.

A deleted message is walked by every listing, and keeps its space in the database, until it is
compacted away. What is younger than `keep_s` stays, so that watches and long listings that fall
a little behind still find their revision.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from nexus.etcd import Client, EtcdError, Get, Keys, PermissionDenied

KEEP_S: Final = 30.0
CHANGES: Final = 2_000  # fewer revisions than this are not worth a compaction
_log: Final = logging.getLogger(__name__)


class History:
    """Which revision was the newest when, and up to which it may be forgotten."""

    def __init__(self, keep_s: float = KEEP_S, changes: int = CHANGES) -> None:
        self._keep_s = keep_s
        self._changes = changes
        self._seen: deque[tuple[float, int]] = deque()
        self._forgotten = 0

    def note(self, now: float, revision: int) -> None:
        self._seen.append((now, revision))

    def due(self, now: float) -> int | None:
        """The revision to compact to; None while that is not worth it."""
        old = 0
        while self._seen and self._seen[0][0] <= now - self._keep_s:
            old = self._seen.popleft()[1]
        if not old:
            return None
        if old - self._forgotten < self._changes:
            self._seen.appendleft((now - self._keep_s, old))
            return None
        self._forgotten = old
        return old


class Compactor:
    """Compacts when it is due; `step` is called every few seconds by the leader.

    `key` is any that the user may read: etcd tells its newest revision with every answer.
    """

    def __init__(
        self,
        client: Client,
        key: bytes,
        history: History | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._key = Keys(key)
        self._history = history or History()
        self._clock = clock
        self._allowed = True
        self.compacted = 0

    async def step(self) -> bool:
        """Whether a compaction was made. One that fails is tried again later, and is no error."""
        if not self._allowed:
            return False
        try:
            revision = (await self._client.range(Get(self._key, count_only=True))).revision
            self._history.note(self._clock(), revision)
            due = self._history.due(self._clock())
            if due is None or not await self._client.maintenance.compact(due):
                return False
        except PermissionDenied:
            self._allowed = False
            _log.warning("etcd: this user may not compact; let etcd do it (--auto-compaction-mode)")
            return False
        except EtcdError as error:
            _log.warning("etcd: compaction: %s", error)
            return False
        self.compacted += 1
        return True
