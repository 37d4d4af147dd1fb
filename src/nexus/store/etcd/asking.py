"""What every question stands on, where readings are keys.

Questions ask for files: here parts of the keys are in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from nexus.store.etcd.newest import Newest
from nexus.store.etcd.parts import Part, Source, Surveyed, survey
from nexus.store.port import Selection
from nexus.store.questions.asking import First
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.database import Database
from nexus.store.questions.held import Held
from nexus.store.questions.known import Whole
from nexus.store.questions.spans import Stretch

# To read a key takes as long as so many rows of a file, by which slices of time are cut.
ROWS_A_KEY: Final = 20.0


@dataclass(frozen=True, slots=True)
class EtcdAsking:
    """One question's way to the store, at one revision; see `Asking`."""

    database: Database
    newest: Newest
    now_s: Callable[[], float]
    unknown_after_s: float
    store: Source
    metrics: tuple[str, ...] = ()  # that the question is about; any, if none are named
    _surveys: dict[Selection, tuple[Stretch, list[Surveyed]]] = field(default_factory=dict)
    _sources: dict[str, pa.Table] = field(default_factory=dict)

    def files(self, name: str, stretches: Sequence[Stretch], which: Selection) -> list[Held]:
        """The parts that may hold readings of these times and series."""
        if name != "readings" or not stretches:
            return []
        surveyed = self._surveyed(Stretch(stretches[0].low, stretches[-1].high), which)
        parts = (each.part(stretch) for each in surveyed for stretch in stretches)
        return [part for part in parts if part is not None]

    def source(
        self, name: str, files: Sequence[Held], conditions: Conditions, first: First | None = None
    ) -> str:
        """A table of what the parts hold, for the FROM of a statement."""
        parts = [file for file in files if isinstance(file, Part)]
        name = f"source_{len(self._sources)}"
        self._sources[name] = self.store.read(parts, self.metrics)
        return name

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        try:
            return self.database.ask(sql, params, {**self._sources, **(tables or {})})
        finally:
            self._sources.clear()

    def share(self, which: Selection) -> float:
        return ROWS_A_KEY

    def known(self) -> Whole:
        return self.newest.known()

    def rolled(self, name: str, width: int, asked: Stretch) -> Rolled | None:
        return None  # there are no rollups in etcd

    def days(self, name: str, whole: Stretch) -> set[str]:
        return set()  # whatever is derived, readings are all there

    def removed(self, day: str) -> bool:
        return False

    def _surveyed(self, whole: Stretch, which: Selection) -> list[Surveyed]:
        """What was found for a longer stretch does for a shorter one."""
        known = self._surveys.get(which)
        if known is None or not (known[0].low <= whole.low and whole.high <= known[0].high):
            known = whole, survey(self.store.reader, self.store.index, which, whole)
            self._surveys[which] = known
        return known[1]
