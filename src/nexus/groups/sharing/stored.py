"""What is stored of one partition in one group: changes are added, and adding one twice is safe.

Its size is bounded by the window in which messages are delivered, whatever the history.
"""

from __future__ import annotations

from nexus.groups.sharing.effects import Record
from nexus.groups.sharing.ranges import Ranges


class Stored:
    """All that is before `start` is finished, and the ranges after it."""

    def __init__(self, record: Record) -> None:
        self.start = record.start
        self._finished = Ranges(record.finished)
        self._attempts = dict(record.attempts)

    def apply(self, change: Record) -> None:
        """Add what became different."""
        self._attempts.update(change.attempts)
        for first, last in change.finished:
            for offset in range(first, last + 1) if self._attempts else ():
                self._attempts.pop(offset, None)
            if last >= self.start:
                self._finished.add(max(first, self.start), last)
        self.start = self._finished.cut_before(self.start)
        if change.start > self.start:
            # Retention removed messages that nobody had finished.
            self._attempts = {at: n for at, n in self._attempts.items() if at >= change.start}
            self.start = self._finished.cut_before(change.start)

    def record(self) -> Record:
        """All of it."""
        return Record(self.start, self._finished.pairs(), tuple(sorted(self._attempts.items())))
