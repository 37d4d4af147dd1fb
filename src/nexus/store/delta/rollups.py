"""Each series by steps of time: from the coarsest table that has it, up to the newest reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from nexus.store.delta import parts
from nexus.store.delta.asking import Asking, as_schema
from nexus.store.delta.conditions import Conditions, checked_key, checked_limit, ordering
from nexus.store.delta.coverage import Rolled, coverage
from nexus.store.delta.newest import said_units
from nexus.store.delta.paging import asked, filled, moment_of, slice_rows, weights
from nexus.store.delta.rolled import rollups_for
from nexus.store.delta.slices import Weight, slices
from nexus.store.delta.spans import SECOND, Stretch, outer
from nexus.store.delta.units import with_units
from nexus.store.port import ROLLUP_KEY, ROLLUP_ROWS, Page, Selection, Span
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS

_TOLD: Final = tuple(name for name in DEVICE_COLUMNS if name not in SERIES_COLUMNS)
_STORED: Final = f"start, {', '.join((*SERIES_COLUMNS, *_TOLD))}, {parts.MEASURES}"
_UNITED: Final = pa.schema([field for field in ROLLUP_ROWS if field.name != "unit"])


def rollups(asking: Asking, which: Selection, span: Span, step_s: int, page: Page) -> pa.Table:
    """A page of steps; see the port."""
    if step_s < 1:
        raise ValueError(f"a step has at least a second, not {step_s}")
    limit = checked_limit(page)
    if page.after is not None:
        checked_key(page.after, ROLLUP_KEY, ROLLUP_ROWS)
    step = step_s * SECOND
    whole = outer(asked(span, page, moment_of(page.after), step), step)
    if whole.low >= whole.high:
        return ROLLUP_ROWS.empty_table()
    rolled = rollups_for(asking, whole, step)
    weighed = _weights(asking, which, whole, rolled)
    cut = slices(whole, weighed, slice_rows(limit), width=step, descending=page.descending)
    found = filled(cut, _Steps(asking, which, rolled, step, page).read, limit)
    return as_schema(with_units(pa.concat_tables(found), partial(said_units, asking)), ROLLUP_ROWS)


def _weights(
    asking: Asking, which: Selection, whole: Stretch, rolled: Sequence[Rolled]
) -> list[Weight]:
    """About how many rows are read where: of rollups, and of readings after them."""
    share = asking.share(which)
    found: list[Weight] = []
    low = whole.low
    for rollup in rolled:
        high = min(max(low, rollup.closed), whole.high)
        if low < high:
            part = Stretch(low, high)
            found += weights(asking.files(rollup.table, [part], which), share, part)
            low = high
    rest = Stretch(low, whole.high)
    if rest.low < rest.high:
        found += weights(asking.files("readings", [rest], which), share, rest)
    return found


@dataclass(frozen=True)
class _Steps:
    """What is asked, to be read slice by slice."""

    asking: Asking
    which: Selection
    rolled: Sequence[Rolled]
    step: int
    page: Page

    def read(self, piece: Stretch, limit: int) -> pa.Table:
        """The first steps of a slice of time that the page can have."""
        params = Conditions()
        found = self._statement(piece, params)
        if not found:
            return _UNITED.empty_table()
        where = params.sharing()
        where.after(ROLLUP_KEY, ROLLUP_ROWS, self.page)
        sql = (
            f"SELECT {', '.join(_UNITED.names)} FROM ({found}) WHERE {where}"
            f" ORDER BY {ordering(ROLLUP_KEY, self.page)} LIMIT {where.bind(limit)}"
        )
        return as_schema(self.asking.ask(sql, where.params), _UNITED)

    def _statement(self, piece: Stretch, params: Conditions) -> str:
        """All steps of a slice of time; "" if no file can have any."""
        covered = coverage(piece, self.rolled)
        stored: list[str] = []  # steps as they are
        made: list[str] = []  # parts of steps
        for rollup, stretches in covered.rolled:
            if source := self._source(rollup.table, "start", stretches, params):
                if rollup.width == self.step:
                    stored.append(f"SELECT {_STORED} FROM {source[0]} WHERE {source[1]}")
                else:
                    made.append(parts.of_windows(*source, _groups("start", self.step), _TOLD))
        if source := self._source("readings", "timestamp", covered.raw, params):
            made.append(parts.of_readings(*source, _groups("timestamp", self.step), _TOLD))
        if made:
            stored.append(parts.together(made, ("start", *SERIES_COLUMNS), _TOLD))
        return " UNION ALL BY NAME ".join(stored)

    def _source(
        self, table: str, moment: str, stretches: Sequence[Stretch], params: Conditions
    ) -> tuple[str, Conditions] | None:
        """A table's files and what of them is asked for; None if no file can have it."""
        files = self.asking.files(table, stretches, self.which)
        if not files:
            return None
        where = params.sharing()
        where.during(moment, stretches)
        where.select(self.which)
        return self.asking.source(table, files, where), where


def _groups(moment: str, step: int) -> tuple[str, ...]:
    return (f"{parts.window_start(moment, step)} AS start", *SERIES_COLUMNS)
