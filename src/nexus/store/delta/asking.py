"""What every question stands on: the pinned versions, the database, and files to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nexus.store.delta.folding import Folds
from nexus.store.delta.following import Pins
from nexus.store.delta.listing import Listing
from nexus.store.delta.live import Live, LiveState
from nexus.store.delta.rolled import rolled
from nexus.store.port import Selection
from nexus.store.questions.asking import First
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.database import Database
from nexus.store.questions.held import Held
from nexus.store.questions.spans import Stretch


@dataclass(frozen=True, slots=True)
class DeltaAsking:
    """One snapshot's tables, to be asked; see `Asking`."""

    pins: Pins
    database: Database
    live: Live
    folds: Folds
    removed: Callable[[str], bool]
    now_s: Callable[[], float]
    unknown_after_s: float

    def files(self, name: str, stretches: Sequence[Stretch], which: Selection) -> list[Held]:
        table = self.table(name)
        if table is None:
            return []
        files = table.holding(stretches, which.uuids)
        return self.folds.instead(table, files) if name == "readings" else files

    def source(
        self, name: str, files: Sequence[Held], conditions: Conditions, first: First | None = None
    ) -> str:
        paths = self.database.paths(name, [file.path for file in files])
        return f"read_parquet({conditions.bind(paths)}, hive_partitioning = false)"

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        return self.database.ask(sql, params, tables)

    def share(self, which: Selection) -> float:
        gpus = self.table("gpus")
        known = sum(file.rows for file in gpus.files()) if gpus is not None else 0
        return min(1.0, len(which.uuids) / known) if which.uuids and known else 1.0

    def known(self) -> LiveState:
        return self.live.at(self.pins)

    def rolled(self, name: str, width: int, asked: Stretch) -> Rolled | None:
        return rolled(name, width, asked, pins=self.pins, live=self.live, removed=self.removed)

    def days(self, name: str, whole: Stretch) -> set[str]:
        table = self.table(name)
        return set() if table is None else set(table.held_days(whole))

    def table(self, name: str) -> Listing | None:
        return self.pins.tables.get(name)
