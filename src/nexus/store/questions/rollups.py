"""Each series by steps of time: from the coarsest table that has it, up to the newest reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from nexus.store.port import ROLLUP_KEY, ROLLUP_ROWS, Page, Selection, Span, only
from nexus.store.questions import parts
from nexus.store.questions.asking import Asking, as_schema
from nexus.store.questions.conditions import Conditions, checked_key, checked_limit, ordering
from nexus.store.questions.coverage import Rolled, coverage
from nexus.store.questions.newest import said_units
from nexus.store.questions.paging import asked, filled, moment_of, slice_rows, weights
from nexus.store.questions.rolled import rollups_for
from nexus.store.questions.slices import Weight, slices
from nexus.store.questions.spans import SECOND, Stretch, outer
from nexus.store.questions.steps import Steps
from nexus.store.questions.units import with_units
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS

_TOLD: Final = tuple(name for name in DEVICE_COLUMNS if name not in SERIES_COLUMNS)
_STORED: Final = f"start, {', '.join((*SERIES_COLUMNS, *_TOLD))}, {parts.MEASURES}"


def rollups(asking: Asking, which: Selection, span: Span, step_s: int, page: Page) -> pa.Table:
    """A page of steps; see the port."""
    if step_s < 1:
        raise ValueError(f"a step has at least a second, not {step_s}")
    limit = checked_limit(page)
    if page.after is not None:
        checked_key(page.after, ROLLUP_KEY, ROLLUP_ROWS)
    step = step_s * SECOND
    whole = outer(asked(span, page, moment_of(page.after), step), step)
    schema = only(ROLLUP_ROWS, page.columns)
    if whole.low >= whole.high:
        return schema.empty_table()
    rolled = rollups_for(asking, whole, step)
    weighed = _weights(asking, which, whole, rolled)
    cut = slices(whole, weighed, slice_rows(limit), width=step, descending=page.descending)
    read = _Pages(Steps(asking, which, rolled, step), page, _without_units(schema)).read
    found = pa.concat_tables(filled(cut, read, limit))
    if "unit" in schema.names:
        found = with_units(found, partial(said_units, asking))
    return as_schema(found, schema)


def _without_units(schema: pa.Schema) -> pa.Schema:
    """What is read of the tables: the catalogue has the units, by metric."""
    names = {"metric" if name == "unit" else name for name in schema.names}
    return pa.schema([field for field in ROLLUP_ROWS if field.name in names])


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
class _Pages:
    """A page of steps, to be read slice by slice."""

    steps: Steps
    page: Page
    schema: pa.Schema  # of what is read

    def read(self, piece: Stretch, limit: int) -> pa.Table:
        """The first steps of a slice of time that the page can have."""
        params = Conditions()
        found = self._statement(piece, params)
        if not found:
            return self.schema.empty_table()
        where = params.sharing()
        where.after(ROLLUP_KEY, ROLLUP_ROWS, self.page)
        sql = (
            f"SELECT {', '.join(self.schema.names)} FROM ({found}) WHERE {where}"
            f" ORDER BY {ordering(ROLLUP_KEY, self.page)} LIMIT {where.bind(limit)}"
        )
        return as_schema(self.steps.asking.ask(sql, where.params), self.schema)

    def _statement(self, piece: Stretch, params: Conditions) -> str:
        """All steps of a slice of time; "" if no file can have any."""
        covered = coverage(piece, self.steps.rolled)
        stored: list[str] = []  # steps as they are
        made: list[str] = []  # parts of steps
        for rollup, stretches in covered.rolled:
            source = self.steps.source(rollup.table, "start", stretches, params)
            if source and rollup.width == self.steps.step:
                stored.append(f"SELECT {_STORED} FROM {source[0]} WHERE {source[1]}")
            elif source:
                made.append(self.steps.of_windows(source, SERIES_COLUMNS, _TOLD))
        made += self.steps.of_readings(covered.raw, params, SERIES_COLUMNS, _TOLD)
        if made:
            stored.append(parts.together(made, ("start", *SERIES_COLUMNS), _TOLD))
        return " UNION ALL BY NAME ".join(stored)
