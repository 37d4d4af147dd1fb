"""Holds a store against itself, and two stores against each other, day by day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np

from nexus.lake.errors import StoreError
from nexus.pipeline.moving.checksum import Digest, digest_of
from nexus.pipeline.moving.known import ROWS_AT_ONCE, Known, rounds
from nexus.pipeline.moving.port import COPIED, DERIVED, Place, Slice, slices
from nexus.pipeline.moving.windows import Minutes
from nexus.store.errors import QueryError

Watch = Callable[[Slice, int, int], None]  # a day, its number, and how many there are
_SHOWN: Final = 3  # windows that are named, of those that differ


@dataclass(frozen=True, slots=True)
class Verified:
    """What a day of a table has, and what is wrong with it."""

    part: Slice
    digest: Digest = field(default_factory=Digest)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """A day of a table in two stores."""

    part: Slice
    one: Digest
    other: Digest
    missing: int = 0  # in the other
    extra: int = 0
    differing: int = 0

    @property
    def is_same(self) -> bool:
        return self.one == self.other


def compared(
    one: Place,
    other: Place,
    low: int | None,
    high: int | None,
    watch: Watch = lambda part, number, of: None,
    *,
    at_once: int = ROWS_AT_ONCE,
) -> Iterator[Compared]:
    """All days that one of the stores has."""
    with one.pinned(), other.pinned():
        days = {table: {**other.days(table), **one.days(table)} for table in COPIED}
        parts = [part for table in COPIED for part in slices(days[table], table, low, high)]
        for number, part in enumerate(parts, 1):
            watch(part, number, len(parts))
            own, others = (digest_of(part.table, place.rows(part)) for place in (one, other))
            found = Compared(part, own, others)
            yield found if found.is_same else _told_apart(one, other, found, at_once)


def _told_apart(one: Place, other: Place, found: Compared, at_once: int) -> Compared:
    """With how many rows differ, which takes a second look."""
    part, missing, extra, differing = found.part, 0, 0, 0
    for each in rounds(found.other.rows, at_once):
        known = Known(numbers for _, numbers in each.rows(part.table, other.rows(part)))
        for _, numbers in each.rows(part.table, one.rows(part)):
            missing += int(known.are_new(numbers).sum())
        extra += known.unmatched
        differing += known.differing
    return replace(found, missing=missing, extra=extra, differing=differing)


def verified(
    place: Place,
    low: int | None,
    high: int | None,
    watch: Watch = lambda part, number, of: None,
    *,
    at_once: int = ROWS_AT_ONCE,
) -> Iterator[Verified]:
    """All days of a store, with what does not fit together."""
    with place.pinned():
        days = {table: place.days(table) for table in (*COPIED, *DERIVED)}
        check = _Check(place, at_once)
        parts = sorted(
            (part for table in days for part in slices(days[table], table, low, high)),
            key=lambda part: (part.day, tuple(days).index(part.table)),
        )
        for number, part in enumerate(parts, 1):
            watch(part, number, len(parts))
            yield check.day(part, days[part.table][part.day])


class _Check:
    """What is known of the day that is looked at: rollups come after their readings."""

    def __init__(self, place: Place, at_once: int) -> None:
        self._place = place
        self._at_once = at_once
        self._read: tuple[str, Minutes] | None = None

    def day(self, part: Slice, said: int) -> Verified:
        problems: list[str] = []
        try:
            problems += self._place.faults(part)
            is_rollup = part.table in DERIVED
            digest, more = self._rollup(part) if is_rollup else self._rows(part, said)
        except (StoreError, QueryError) as error:
            return Verified(part, problems=(*problems, str(error)))
        if self._place.counts_exactly and part.is_whole and digest.rows != said:
            more.append(f"{digest.rows:,} rows were read, and {said:,} should be there")
        return Verified(part, digest, (*problems, *more))

    def _rows(self, part: Slice, said: int) -> tuple[Digest, list[str]]:
        """Rows, what they come to, and whether each is there once."""
        minutes = Minutes(part.day) if part.table == "readings" else None
        whole, twice = Digest(), 0
        for each in rounds(said, self._at_once):
            seen = []
            for rows, numbers in each.rows(part.table, self._place.rows(part)):
                whole = whole.plus(Digest.of(numbers.said))
                seen.append(numbers.which)
                if minutes is not None:
                    minutes.add_readings(rows)
            which = np.concatenate([np.empty(0, np.uint64), *seen])
            twice += len(which) - len(np.unique(which))
        if minutes is None:
            return whole, []  # the same thing may be refused twice
        self._read = part.day, minutes
        return whole, [f"{twice:,} readings are there more than once"] if twice else []

    def _rollup(self, part: Slice) -> tuple[Digest, list[str]]:
        """Windows, and whether they are what the readings say."""
        found, rows = Minutes(part.day), 0
        for windows in self._place.rows(part):
            found.add_windows(windows)
            rows += windows.num_rows
        if self._read is None or self._read[0] != part.day:
            return Digest(rows), []  # the readings are gone, and rollups all that is left
        wanted = self._read[1]
        if part.table == "rollup_1h":
            wanted, found = wanted.hours(), found.hours()
        width = DERIVED[part.table]
        wrong = found.differing(wanted, self._place.fresh(part), width)
        return Digest(rows), [_said(wrong)] if wrong else []


def _said(starts: list[int]) -> str:
    shown = ", ".join(f"{datetime.fromtimestamp(s / 1e6, UTC):%H:%M}" for s in starts[:_SHOWN])
    more = f" and {len(starts) - _SHOWN:,} others" if len(starts) > _SHOWN else ""
    return f"windows that differ from the readings: {shown}{more}"
