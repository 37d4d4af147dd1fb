"""What copying and comparing ask of any store: its days, their rows, and room for more of them.

A kind of store is one `Place` to read and one `Writer` to add to; nothing here knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from nexus.lake.datafile import time_column
from nexus.store.questions.spans import DAY, HOUR, MINUTE, Stretch
from nexus.telemetry.tables import TABLES

COPIED: Final = ("readings", "quarantine")  # in this order; everything else is derived
DERIVED: Final = {"rollup_1m": MINUTE, "rollup_1h": HOUR}  # and how wide their windows are
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)

Wait = Callable[[str], None]  # told who writes to a store; sleeps, or ends the waiting by raising


class Slice(NamedTuple):
    """The rows of a table with times of one day, or of a part of it: [low, high)."""

    table: str
    day: str
    low: int  # microseconds since 1970
    high: int

    @property
    def column(self) -> str:
        """The column that says when a row was."""
        name = time_column(TABLES[self.table])
        assert name is not None
        return name

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole day."""
        return self.high - self.low == DAY

    @property
    def since(self) -> datetime:
        return _EPOCH + self.low * _TICK

    @property
    def until(self) -> datetime:
        return _EPOCH + self.high * _TICK


class Place(Protocol):
    """A store to be read; for one thread."""

    name: str
    counts_exactly: bool  # whether `days` says how many rows there are, or about how many

    def days(self, table: str) -> Mapping[str, int]:
        """The days of which a table has rows, and about how many: nothing is read for it."""

    def rows(self, part: Slice) -> Iterator[pa.Table]:
        """All rows of a slice as the table has them, less their day, some at a time.

        Text may be dictionary-encoded. Memory does not grow with the slice.
        """

    def pinned(self) -> AbstractContextManager[None]:
        """Until the block ends, all that is read is of one state of the store."""

    def faults(self, part: Slice) -> list[str]:
        """What is wrong with how a day is kept, beside what its rows say."""

    def fresh(self, part: Slice) -> list[Stretch]:
        """The windows of a rollup's day that no reading has come to since they were computed."""

    def writer(self, owner: str, wait: Wait | None) -> AbstractContextManager[Writer]:
        """The right to add rows, until the block ends; StoreBusy while another has it."""

    def close(self) -> None:
        """Let go of everything; safe to call twice."""


class Writer(Protocol):
    """Adds rows to a store, as its only writer."""

    portion_rows: int  # that are added at once
    derives: bool  # whether derived tables follow at once; otherwise when a collector next writes

    @property
    def tables(self) -> Sequence[str]:
        """Those that it takes rows of."""

    def add(self, part: Slice, rows: pa.Table) -> pa.Table:
        """Add rows that are not there; those that the store cannot hold come back."""

    def settle(self, part: Slice) -> None:
        """Return when all that was added of a slice is there for good.

        A day of a rollup is one of which there are no readings any more: that is noted.
        """

    def derive(self) -> None:
        """Bring derived tables up to the readings, if that is done here."""


def slices(
    days: Mapping[str, int] | Sequence[str], table: str, low: int | None, high: int | None
) -> list[Slice]:
    """The days of a table between two times, the oldest first."""
    found = []
    for day in sorted(days):
        start = start_of(day)
        part = Slice(
            table,
            day,
            start if low is None else max(start, low),
            start + DAY if high is None else min(start + DAY, high),
        )
        if part.low < part.high:
            found.append(part)
    return found


def start_of(day: str) -> int:
    """When a day such as 2025-07-18 begins, in microseconds since 1970."""
    return int((datetime.fromisoformat(day).replace(tzinfo=UTC) - _EPOCH) / _TICK)


def day_of(micros: int) -> str:
    """The day of a moment."""
    return (_EPOCH + micros * _TICK).date().isoformat()
