"""Empties a stream as a consumer of its group, which acknowledges what the queue has confirmed.

First come entries that an import before this one had in hand, then those of consumers that were
silent for too long, then new ones. Entries stay in the stream: other groups may want them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from nexus.queue.errors import QueueError
from nexus.queue.redis.client import RedisClient
from nexus.queue.redis.entries import Entry
from nexus.queue.redis.lock import Lock
from nexus.queue.redis.source import Found

CONSUMER: Final = "nexus-import"
_LOOK_AGAIN_S: Final = 1.0
_ASIDE: Final = """
for i = 2, #ARGV do
  local found = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])
  if found[1] then redis.call('XADD', KEYS[2], '*', unpack(found[1][2])) end
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
end
return false
"""


class StreamSource:
    """One group of a stream. `idle_ms` is how long a consumer may say nothing of what it has."""

    def __init__(
        self,
        client: RedisClient,
        *,
        idle_ms: int,
        make: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._idle_ms, self._make, self._clock = client, idle_ms, make, clock
        self.found = Found()
        self._key, self._group = client.url.name.encode(), client.url.group.encode()
        self._aside = self._key + b":nexus-refused"
        self._lock = Lock(client, self._key + b":nexus-import:" + self._group + b":lock")
        self._in_hand: set[bytes] = set()
        self._own: bytes | None = b"0"  # how far what we had before was read; None if it all was
        self._others: bytes | None = b"0"  # the same of what others have
        self._looked = 0.0

    def open(self, confirmed: Sequence[Entry] = ()) -> None:
        is_there = self._client.check()
        if not is_there and not self._make:
            raise QueueError(f"redis {self._client.url}: there is no such stream")
        self._lock.acquire()
        if self._group not in self._groups(is_there):
            self._client.ask("XGROUP", "CREATE", self._key, self._group, 0, "MKSTREAM")
        if confirmed:
            self._acknowledge(entry.id for entry in confirmed)
        self._in_hand.clear()
        self._own = self._others = b"0"

    def renew(self) -> None:
        self._lock.renew()

    def take(self, most: int, most_bytes: int) -> list[Entry]:
        while self._own is not None:
            found = self._read(most, self._own)
            self._own = found[-1][0] if found else None
            if taken := self._taken(found):
                self.found.recovered += len(taken)
                return taken
        if taken := self._claimed(most):
            self.found.claimed += len(taken)
            return taken
        return self._taken(self._read(most, b">"))

    def done(self, entries: Sequence[Entry], refused: Sequence[Entry] = ()) -> None:
        if refused:
            ids = [entry.id for entry in refused]
            self._client.script(_ASIDE, [self._key, self._aside], self._group, *ids)
        self._acknowledge(entry.id for entry in entries)
        self._in_hand.difference_update(entry.id for entry in entries)

    def left(self) -> int:
        pending = int(self._client.ask("XPENDING", self._key, self._group)[0])
        # Where entries were deleted, or before version 7, Redis cannot tell how many are new.
        lag = self._groups(is_there=True).get(self._group, {}).get(b"lag")
        return pending + int(lag or 0)

    def close(self) -> None:
        self._lock.release()

    def _groups(self, is_there: bool) -> dict[bytes, dict[bytes, Any]]:
        rows = self._client.ask("XINFO", "GROUPS", self._key) if is_there else []
        told = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
        return {row[b"name"]: row for row in told}

    def _read(self, most: int, after: bytes) -> list[Any]:
        words = ("GROUP", self._group, CONSUMER, "COUNT", most, "STREAMS", self._key, after)
        answer = self._client.ask("XREADGROUP", *words)
        return list(answer[0][1]) if answer else []

    def _claimed(self, most: int) -> list[Entry]:
        """Entries of consumers that were silent for too long; they are looked for now and then."""
        if self._others is None:
            if self._clock() - self._looked < _LOOK_AGAIN_S:
                return []
            self._others = b"0"
        while self._others is not None:
            words = (self._key, self._group, CONSUMER, self._idle_ms, self._others, "COUNT", most)
            after, found, *gone = self._client.ask("XAUTOCLAIM", *words)
            self.found.gone += len(gone[0]) if gone else 0
            self._others, self._looked = None if after == b"0-0" else after, self._clock()
            # Of ours, those on their way may have been there for long too.
            if taken := self._taken([row for row in found if row and row[0] not in self._in_hand]):
                return taken
        return []

    def _taken(self, rows: Sequence[Any]) -> list[Entry]:
        """Entries in hand now; those that were trimmed away are nobody's any more."""
        gone = [id_ for id_, fields in rows if fields is None]
        if gone:
            self.found.gone += len(gone)
            self._acknowledge(gone)
        entries = [
            Entry(id_, tuple(zip(fields[::2], fields[1::2], strict=True)))
            for id_, fields in rows
            if fields is not None
        ]
        self._in_hand.update(entry.id for entry in entries)
        return entries

    def _acknowledge(self, ids: Iterable[bytes]) -> None:
        self._client.ask("XACK", self._key, self._group, *ids)
