"""A set of offsets that lie mostly side by side, kept as ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


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
        return cls(neighbours(sorted(offsets)))

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]

    def add(self, first: int, last: int | None = None) -> None:
        """Add one, or all up to the last; what is there of them stays."""
        last = first if last is None else last
        # All that it meets or touches becomes one with it.
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        for at in range(begin, end):
            self.count -= self._lasts[at] - self._firsts[at] + 1
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]
        self.count += last - first + 1

    def gap(self, start: int, end: int) -> range:
        """The next offsets from `start` on, and before `end`, that are not there."""
        at = bisect_right(self._firsts, start)
        if at > 0 and self._lasts[at - 1] >= start:
            start = self._lasts[at - 1] + 1
        if at < len(self._firsts):
            end = min(end, self._firsts[at])
        return range(start, end)

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


def neighbours(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending offsets as ranges: first and last."""
    return [(first, last) for first, last, _ in runs_of((offset, 0) for offset in offsets)]


def runs_of(attempts: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours that were tried equally often, together: first, last and how often."""
    runs = []
    first, following, tries = 0, -1, -1
    for offset, count in attempts:
        if offset != following or count != tries:
            if tries >= 0:
                runs.append((first, following - 1, tries))
            first, tries = offset, count
        following = offset + 1
    if tries >= 0:
        runs.append((first, following - 1, tries))
    return runs
