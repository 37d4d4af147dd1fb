"""A set of offsets that lie mostly side by side, kept as ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Ranges:
    """Offsets as (first, last) pairs in order; neighbours are always one range."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self._firsts.append(first)
            self._lasts.append(last)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]

    def add(self, offset: int) -> None:
        """Add one that is not there."""
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
        del self._firsts[:at], self._lasts[:at]
        return offset

    def count_below(self, end: int) -> int:
        """How many there are before an end."""
        pairs = zip(self._firsts, self._lasts, strict=True)
        return sum(min(last + 1, end) - first for first, last in pairs if first < end)

    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self._firsts, self._lasts, strict=True))
