"""A group's committed positions, and which of them have a commit on its way to disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from nexus.groups.records import OffsetValue
from nexus.groups.requests import TopicPartition


class OffsetTable:
    """Positions that count are those that are stored; each commit has a ticket, in order."""

    __slots__ = ("_floors", "_on_the_way", "_tickets", "committed")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetValue] = {}
        self._tickets = 0
        self._on_the_way: Counter[TopicPartition] = Counter()
        # Where a key was dropped while commits of it were on the way: up to which ticket.
        self._floors: dict[TopicPartition, int] = {}

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self._on_the_way

    def known(self) -> set[TopicPartition]:
        """Everything that the log may hold a value for."""
        return self.committed.keys() | self._on_the_way.keys()

    def begin(self, keys: Iterable[TopicPartition]) -> int:
        """A commit of these was handed out to be stored; returns its ticket."""
        for key in keys:
            self._on_the_way[key] += 1
        self._tickets += 1
        return self._tickets

    def settle(self, ticket: int, values: dict[TopicPartition, OffsetValue], ok: bool) -> None:
        """A commit was stored, or failed."""
        for key, value in values.items():
            if ok and ticket > self._floors.get(key, 0):
                self.committed[key] = value
            self._on_the_way[key] -= 1
            if not self._on_the_way[key]:
                del self._on_the_way[key]
                self._floors.pop(key, None)

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """These are gone from the log."""
        for key in keys:
            self.committed.pop(key, None)

    def drop(self, keys: Iterable[TopicPartition]) -> None:
        """These no longer count, whatever is still on the way."""
        for key in keys:
            self.committed.pop(key, None)
            if key in self._on_the_way:
                self._floors[key] = self._tickets

    def idle(self) -> Iterator[tuple[TopicPartition, OffsetValue]]:
        """The positions that no commit is about to replace."""
        return (kv for kv in self.committed.items() if kv[0] not in self._on_the_way)
