"""A set of offsets that lie mostly side by side, kept as ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import groupby


class Ranges:
    """Offsets as (first, last) pairs in order; neighbours are always one range."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.count = 0  # of the offsets
        for first, last in ranges:
            self._firsts.append(first)
            self._lasts.append(last)
            self.count += last - first + 1

    @classmethod
    def of(cls, offsets: Iterable[int]) -> Ranges:
        """The ranges of single offsets."""
        ranges = cls()
        for offset in sorted(offsets):
            ranges.add(offset)
        return ranges

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]

    def add(self, offset: int) -> None:
        """Add one that is not there."""
        self.count += 1
        at = bisect_right(self._firsts, offset)
        joins_before = at > 0 and self._lasts[at - 1] == offset - 1
        joins_after = at < len(self._firsts) and self._firsts[at] == offset + 1
        if joins_before and joins_after:
            self._lasts[at - 1] = self._lasts.pop(at)
            del self._firsts[at]
        elif joins_before:
            self._lasts[at - 1] = offset
        elif joins_after:
            self._firsts[at] = offset
        else:
            self._firsts.insert(at, offset)
            self._lasts.insert(at, offset)

    def cut_before(self, offset: int) -> int:
        """Forget all before an offset, and what follows it without a gap: where that ends."""
        at = bisect_right(self._firsts, offset)
        if at > 0 and self._lasts[at - 1] >= offset:
            offset = self._lasts[at - 1] + 1
        for first, last in zip(self._firsts[:at], self._lasts[:at], strict=True):
            self.count -= last - first + 1
        del self._firsts[:at], self._lasts[:at]
        return offset

    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self._firsts, self._lasts, strict=True))


def runs_of(attempts: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours that were tried equally often, together: first, last and how often."""
    runs = []
    numbered = enumerate(attempts)
    for _, group in groupby(numbered, key=lambda item: (item[1][0] - item[0], item[1][1])):
        members = [one for _, one in group]
        runs.append((members[0][0], members[-1][0], members[0][1]))
    return runs
