"""Steps of time, put together from the tables that cover it: windows of rollups, and readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus.store.port import Selection
from nexus.store.questions import parts
from nexus.store.questions.asking import Asking
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.spans import Stretch

Source = tuple[str, Conditions]  # what to read, and which rows of it


@dataclass(frozen=True)
class Steps:
    """What is asked of which tables: the rollups that steps of a width can be made of."""

    asking: Asking
    which: Selection
    rolled: Sequence[Rolled]
    step: int

    def of_windows(self, source: Source, keys: Sequence[str], told: Sequence[str] = ()) -> str:
        """Parts of steps, by these columns, from the windows of a rollup."""
        return parts.of_windows(*source, self._groups("start", keys), told)

    def of_readings(
        self,
        stretches: Sequence[Stretch],
        params: Conditions,
        keys: Sequence[str],
        told: Sequence[str] = (),
    ) -> list[str]:
        """The part of steps, by these columns, that readings have; none if no file can."""
        source = self.source("readings", "timestamp", stretches, params)
        groups = self._groups("timestamp", keys)
        return [parts.of_readings(*source, groups, told)] if source else []

    def source(
        self, table: str, moment: str, stretches: Sequence[Stretch], params: Conditions
    ) -> Source | None:
        """A table's files and what of them is asked for; None if no file can have it."""
        files = self.asking.files(table, stretches, self.which)
        if not files:
            return None
        where = params.sharing()
        where.during(moment, stretches)
        where.select(self.which)
        return self.asking.source(table, files, where), where

    def _groups(self, moment: str, keys: Sequence[str]) -> tuple[str, ...]:
        return (f"{parts.window_start(moment, self.step)} AS start", *keys)
