"""A group's committed positions, and which of them have a commit on its way to disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from nexus.groups.records import OffsetValue
from nexus.groups.requests import TopicPartition


class OffsetTable:
    """Positions become visible in the order of their stores, and only once they are stored."""

    __slots__ = ("_dropped", "_on_the_way", "committed")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetValue] = {}
        self._on_the_way: Counter[TopicPartition] = Counter()
        # Keys dropped while commits of them were on the way: how many of those no longer count.
        self._dropped: dict[TopicPartition, int] = {}

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self._on_the_way

    def known(self) -> set[TopicPartition]:
        """Everything that the log may hold a value for."""
        return self.committed.keys() | self._on_the_way.keys()

    def begin(self, keys: Iterable[TopicPartition]) -> None:
        """Commits of these were handed out to be stored."""
        # An iterator, for a Counter adds up the values of a mapping.
        self._on_the_way.update(iter(keys))

    def settle(self, values: dict[TopicPartition, OffsetValue], ok: bool) -> None:
        """The oldest commit on the way of these was stored, or failed."""
        for key, value in values.items():
            self._on_the_way[key] -= 1
            if not self._on_the_way[key]:
                del self._on_the_way[key]
            if not self._was_dropped(key) and ok:
                self.committed[key] = value

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """These are gone from the log."""
        for key in keys:
            self.committed.pop(key, None)

    def drop(self, keys: Iterable[TopicPartition]) -> None:
        """These no longer count, whatever is still on the way."""
        for key in keys:
            self.committed.pop(key, None)
            if key in self._on_the_way:
                self._dropped[key] = self._on_the_way[key]

    def idle(self) -> Iterator[tuple[TopicPartition, OffsetValue]]:
        """The positions that no commit is about to replace."""
        return (kv for kv in self.committed.items() if kv[0] not in self._on_the_way)

    def _was_dropped(self, key: TopicPartition) -> bool:
        left = self._dropped.get(key)
        if left is None:
            return False
        if left > 1:
            self._dropped[key] = left - 1
        else:
            del self._dropped[key]
        return True
