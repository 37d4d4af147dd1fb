"""Which rows a store has already, as numbers in memory: sixteen bytes for each.

Rows of another store are held against them, some at a time. Where there are too many for memory,
it is done in several rounds, each for a share of all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nexus.pipeline.moving.checksum import Digest, Numbers, numbers_of

ROWS_AT_ONCE: Final = 8_000_000


class Round(NamedTuple):
    """One of several rounds: the rows whose number says so."""

    number: int
    of: int

    def rows(self, table: str, batches: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, Numbers]]:
        """Those of the rows that belong to this round, with their numbers."""
        for rows in batches:
            numbers = numbers_of(table, rows)
            if self.of == 1:
                yield rows, numbers
                continue
            mask = numbers.which % np.uint64(self.of) == np.uint64(self.number)
            if mask.any():
                yield rows.filter(pa.array(mask)), numbers.chosen(mask)


def rounds(rows: int, at_once: int = ROWS_AT_ONCE) -> list[Round]:
    """As many rounds as it takes where about so many rows have to be remembered."""
    count = max(1, -(-rows // at_once))
    return [Round(number, count) for number in range(count)]


class Known:
    """The rows of a slice that a store has."""

    def __init__(self, found: Iterable[Numbers]) -> None:
        parts = list(found)
        which = np.concatenate([np.empty(0, np.uint64), *(part.which for part in parts)])
        said = np.concatenate([np.empty(0, np.uint64), *(part.said for part in parts)])
        order = np.argsort(which, kind="stable")
        self._which, self._said = which[order], said[order]
        self._met = np.zeros(len(order), np.int32)  # of rows with one number, at the first of them
        self.digest = Digest.of(self._said)
        self.matched = self.differing = 0

    def are_new(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Which of these rows are not known; a row that is known twice is matched by two."""
        if not len(self._which):
            return np.ones(len(rows.which), np.bool_)
        order = np.argsort(rows.which, kind="stable")
        which = rows.which[order]
        place = np.arange(len(which)) - np.searchsorted(which, which, "left")
        first, last = np.searchsorted(self._which, which, "left"), len(self._which) - 1
        at = first + self._met[np.minimum(first, last)] + place
        is_there = (at <= last) & (self._which[np.minimum(at, last)] == which)
        np.add.at(self._met, first[is_there], 1)
        self.matched += int(is_there.sum())
        self.differing += int((self._said[at[is_there]] != rows.said[order][is_there]).sum())
        new = np.empty(len(order), np.bool_)
        new[order] = ~is_there
        return new

    @property
    def unmatched(self) -> int:
        """Rows that nothing was held against yet."""
        return self.digest.rows - self.matched
