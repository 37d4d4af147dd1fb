"""What every question stands on, where rows are points in InfluxDB.

Questions ask for files: here hours are in their place, with as many rows as came in them. Which
rows are read is decided by their time and by what is in tags; the rest of a question is decided by
the statement that all stores share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from nexus.store.influx.journal import State, day_of
from nexus.store.influx.newest import LastReadings
from nexus.store.influx.reading import Reader
from nexus.store.port import ANY, Selection
from nexus.store.questions.asking import First
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.database import Database
from nexus.store.questions.held import Held
from nexus.store.questions.known import Whole
from nexus.store.questions.rolled import less_removed
from nexus.store.questions.spans import MINUTE, Stretch, clipped, joined, outer

# A row of an answer takes as long as so many rows of a file, by which slices of time are cut.
ROWS_A_ROW: Final = 8.0


class Hours(Held):
    """What a question takes for a file: an hour of a table, and what is asked of it."""

    which: Selection
    stretches: Sequence[Stretch]


@dataclass(frozen=True, slots=True)
class Ways:
    """What all questions to one store share."""

    reader: Reader
    database: Database
    newest: LastReadings
    now_s: Callable[[], float]
    unknown_after_s: float


@dataclass(frozen=True, slots=True)
class InfluxAsking:
    """One question's way to the store, at one state; see `Asking`."""

    ways: Ways
    state: State
    _sources: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def unknown_after_s(self) -> float:
        return self.ways.unknown_after_s

    def now_s(self) -> float:
        return self.ways.now_s()

    def files(self, name: str, stretches: Sequence[Stretch], which: Selection) -> list[Held]:
        uuids = self._uuids(which)
        if not stretches or (uuids is not None and not uuids):
            return []
        found: list[Held] = []
        for held in self._held(name, Stretch(stretches[0].low, stretches[-1].high)):
            if any(s.low <= held.high and held.low < s.high for s in stretches):
                hours = Hours(*held)
                hours.which, hours.stretches = which, stretches
                found.append(hours)
        return found

    def source(
        self, name: str, files: Sequence[Held], conditions: Conditions, first: First | None = None
    ) -> str:
        hours = [file for file in files if isinstance(file, Hours)]
        which = hours[0].which if hours else ANY
        low, high = min(h.low for h in files), max(h.high for h in files) + 1
        stretches = clipped(hours[0].stretches, low, high) if hours else []
        source = f"source_{len(self._sources)}"
        self._sources[source] = self.ways.reader.table(self.state, name, stretches, which)
        return source

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        try:
            return self.ways.database.ask(sql, params, {**self._sources, **(tables or {})})
        finally:
            self._sources.clear()

    def share(self, which: Selection) -> float:
        uuids = self._uuids(which)
        known = len(self.ways.reader.texts.all_uuids(self.state.identity, self.state.version))
        part = min(1.0, len(uuids) / known) if uuids is not None and known else 1.0
        return ROWS_A_ROW * part

    def known(self) -> Whole:
        return self.ways.newest.at(self.state).state

    def rolled(self, name: str, width: int, asked: Stretch) -> Rolled | None:
        if name not in self.state.rolled:
            return None
        closed, upto = self.state.rolled[name]
        low, high = outer(asked, width)
        late = (
            outer(Stretch(a.low, a.high + 1), max(width, MINUTE))
            for a in self.state.arrivals
            if a.version > upto and a.low < min(closed, high) and a.high >= low
        )
        stale = less_removed(self.removed, clipped(joined(late), low, high))
        return Rolled(name, width, closed, stale)

    def days(self, name: str, whole: Stretch) -> set[str]:
        return {day_of(held.low) for held in self._held(name, whole)}

    def removed(self, day: str) -> bool:
        return day in self.state.removed

    def _uuids(self, which: Selection) -> Any:
        return self.ways.reader.texts.uuids(self.state.identity, self.state.version, which)

    def _held(self, name: str, whole: Stretch) -> list[Held]:
        """The hours of a table that may hold rows of a stretch."""
        hours = self.state.held.get(name, {})
        return [
            Held("", came.rows, 0, came.low, came.high, None)
            for came in (hours[start] for start in sorted(hours))
            if came.rows and came.high >= whole.low and came.low < whole.high
        ]
