"""Which message of each key is the next: where order matters, one at a time is in flight."""

from __future__ import annotations

import heapq

Key = bytes | None


class KeyQueues:
    """Unfinished messages by key; those without a key stand in nobody's way."""

    def __init__(self) -> None:
        self._queues: dict[bytes, list[int]] = {}  # heaps

    def add(self, key: Key, offset: int) -> None:
        if key is not None:
            heapq.heappush(self._queues.setdefault(key, []), offset)

    def is_first(self, key: Key, offset: int) -> bool:
        return key is None or self._queues[key][0] == offset

    def remove(self, key: Key, offset: int) -> int | None:
        """One is finished; the next of its key, whose turn it is now."""
        if key is None:
            return None
        queue = self._queues[key]
        if queue[0] == offset:
            heapq.heappop(queue)
        else:
            queue.remove(offset)
            heapq.heapify(queue)
        if queue:
            return queue[0]
        del self._queues[key]
        return None
