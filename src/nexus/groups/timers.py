"""Deadlines by key, cheap to push back: a heartbeat costs one dictionary write.

A key has at most one live entry in the heap. One that moved later is put back when it surfaces;
one that was cancelled or moved earlier leaves a stale entry, dropped in passing.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
_STALE_MIN = 64


class Timers(Generic[Key]):
    """When each key is due."""

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._due)

    def schedule(self, key: Key, due_ms: int) -> None:
        self._due[key] = due_ms
        queued = self._queued.get(key)
        if queued is None or due_ms < queued:
            self._push(key, due_ms)

    def cancel(self, key: Key) -> None:
        if self._due.pop(key, None) is not None:
            self._queued.pop(key, None)
            self._shrink()

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        while self._heap:
            at, _, key = self._heap[0]
            if self._queued.get(key) != at:
                heapq.heappop(self._heap)
            elif self._due[key] > at:
                heapq.heappop(self._heap)
                self._push(key, self._due[key])
            else:
                return at
        return None

    def pop(self, now_ms: int) -> Key | None:
        """A key that is due, forgotten as it is returned; None when nothing is."""
        at = self.next_ms()
        if at is None or at > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key], self._queued[key]
        return key

    def clear(self) -> None:
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    def _push(self, key: Key, due_ms: int) -> None:
        self._count += 1
        self._queued[key] = due_ms
        heapq.heappush(self._heap, (due_ms, self._count, key))

    def _shrink(self) -> None:
        if len(self._heap) > _STALE_MIN + 2 * len(self._due):
            self._heap.clear()
            for key, due in self._due.items():
                self._push(key, due)
