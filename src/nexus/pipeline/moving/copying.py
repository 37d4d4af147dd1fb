"""Copies a store into another, day by day; each day is held against its rows when it is done.

Of every day it is found out which rows the target has, and the others are added. So a copy that was
cut short, or is made again, goes on where something is missing; and rows that are there stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from nexus.pipeline.moving.checksum import Digest, digest_of, numbers_of
from nexus.pipeline.moving.known import ROWS_AT_ONCE, Known, Round, rounds
from nexus.pipeline.moving.port import COPIED, DERIVED, Place, Slice, Writer, slices


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of a day of a table."""

    part: Slice
    source: Digest = field(default_factory=Digest)
    target: Digest = field(default_factory=Digest)  # as it was read back
    added: int = 0
    left_out: int = 0  # that the target cannot hold
    differing: int = 0  # that were there and say something else: they stay
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the target has all that the source has, as the source has it."""
        return not (self.problem or self.left_out or self.differing)


@dataclass(frozen=True, slots=True)
class Told:
    """How far a copy is, for whoever watches."""

    part: Slice
    number: int  # of the day, from 1
    of: int
    rows: int = 0  # read so far, of all days
    rows_total: int = 0  # about
    size: int = 0  # bytes of those in memory
    doing: str = "copying"


Watch = Callable[[Told], None]


def planned(source: Place, low: int | None, high: int | None) -> list[tuple[Slice, int]]:
    """The days to copy, each with about how many rows it has.

    Of rollups those whose readings are gone: nothing can be made of what is not there.
    """
    days = {table: source.days(table) for table in (*COPIED, *DERIVED)}
    for table in DERIVED:
        gone = days[table].keys() - days["readings"].keys()
        days[table] = {day: days[table][day] for day in gone}
    return [
        (part, days[table][part.day])
        for table in days
        for part in slices(days[table], table, low, high)
        if table in COPIED or part.is_whole
    ]


def copied(
    source: Place,
    target: Place,
    writer: Writer,
    plan: Sequence[tuple[Slice, int]],
    watch: Watch = lambda told: None,
    *,
    at_once: int = ROWS_AT_ONCE,
) -> Iterator[Copied]:
    """Copy day after day; what became of each."""
    there = {table: target.days(table) for table in (*COPIED, *DERIVED)}
    plan = [(part, rows) for part, rows in plan if _is_wanted(part, writer, there["readings"])]
    if not plan:
        return
    told = Told(plan[0][0], 0, len(plan), rows_total=sum(rows for _, rows in plan))
    for number, (part, _) in enumerate(plan, 1):
        told = replace(told, part=part, number=number, doing="copying")
        day = _Day(source, target, writer, told, watch)
        done = day.copy(rounds(there[part.table].get(part.day, 0), at_once))
        told = day.told
        if done.added and part.table == "readings":
            watch(replace(told, doing="rolling up"))
            writer.derive()
        yield done
    watch(replace(told, doing="rolling up"))
    writer.derive()  # also what a copy that was cut short has left


def _is_wanted(part: Slice, writer: Writer, readings: Mapping[str, int]) -> bool:
    """Whether a target takes a day: of which it has readings, it makes rollups itself."""
    return part.table in writer.tables and (part.table in COPIED or part.day not in readings)


class _Day:
    """One day under way."""

    def __init__(
        self, source: Place, target: Place, writer: Writer, told: Told, watch: Watch
    ) -> None:
        self._source, self._target, self._writer = source, target, writer
        self._part = told.part
        self.told = told
        self._watch = watch
        self._read = self._added = self._left_out = Digest()
        self._held: list[pa.Table] = []
        self._held_rows = 0

    def copy(self, all_rounds: Sequence[Round]) -> Copied:
        before, differing = Digest(), 0
        for each in all_rounds:
            known = self._known(each)
            before = before.plus(known.digest)
            for rows, numbers in each.rows(self._part.table, self._rows(each)):
                self._read = self._read.plus(Digest.of(numbers.said))
                new = known.are_new(numbers)
                if new.any():
                    self._take(rows.filter(pa.array(new)))
            differing += known.differing
        self._flush()
        after = self._settled(before) if self._added.rows else before
        wanted = before.plus(self._added)
        return Copied(
            self._part,
            source=self._read,
            target=after,
            added=self._added.rows,
            left_out=self._left_out.rows,
            differing=differing,
            problem="" if after == wanted else _wrong(wanted, after),
        )

    def _known(self, each: Round) -> Known:
        """What the target has of a round."""
        self._watch(replace(self.told, doing="comparing"))
        there = each.rows(self._part.table, self._target.rows(self._part))
        return Known(numbers for _, numbers in there)

    def _rows(self, each: Round) -> Iterator[pa.Table]:
        """The rows of the source; in later rounds they were counted already."""
        for rows in self._source.rows(self._part):
            if each.number == 0:
                size = self.told.size + rows.nbytes
                self.told = replace(self.told, rows=self.told.rows + rows.num_rows, size=size)
                self._watch(self.told)
            yield rows

    def _take(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._held_rows += rows.num_rows
        if self._held_rows >= self._writer.portion_rows:
            self._flush()

    def _flush(self) -> None:
        """Add what was gathered."""
        if not self._held:
            return
        rows = _together(self._held)
        self._held, self._held_rows = [], 0
        table = self._part.table
        for start in range(0, rows.num_rows, self._writer.portion_rows):
            portion = rows.slice(start, self._writer.portion_rows)
            left = self._writer.add(self._part, portion)
            taken = Digest.of(numbers_of(table, portion).said)
            if left.num_rows:
                out = Digest.of(numbers_of(table, left).said)
                self._left_out, taken = self._left_out.plus(out), taken.minus(out)
            self._added = self._added.plus(taken)

    def _settled(self, before: Digest) -> Digest:
        """What the target has now, read back."""
        self._writer.settle(self._part)
        self._watch(replace(self.told, doing="verifying"))
        return digest_of(self._part.table, self._target.rows(self._part))


def _together(held: Sequence[pa.Table]) -> pa.Table:
    """Tables of one kind as one, whether their text is encoded or not."""
    first = held[0].schema
    same = [table if table.schema == first else table.cast(first) for table in held]
    return pa.concat_tables(same).unify_dictionaries().combine_chunks()


def _wrong(wanted: Digest, found: Digest) -> str:
    if wanted.rows != found.rows:
        return f"{found.rows:,} rows are there, and {wanted.rows:,} should be"
    return f"checksum {found} is there, and {wanted} should be"
