"""What every question stands on: the pinned versions, the database, and files to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nexus.store.delta.conditions import Conditions
from nexus.store.delta.database import Database
from nexus.store.delta.folding import Folds
from nexus.store.delta.following import Pins
from nexus.store.delta.listing import Held, Listing
from nexus.store.delta.live import Live
from nexus.store.delta.spans import Stretch
from nexus.store.port import Selection


@dataclass(frozen=True, slots=True)
class Asking:
    """One snapshot's tables, to be asked."""

    pins: Pins
    database: Database
    live: Live
    folds: Folds
    removed: Callable[[str], bool]  # whether readings of a day were removed by retention
    clock: Callable[[], float]
    unknown_after_s: float

    def table(self, name: str) -> Listing | None:
        return self.pins.tables.get(name)

    def files(self, name: str, stretches: Sequence[Stretch], which: Selection) -> list[Held]:
        """The files of a table that may hold rows of these times and series."""
        table = self.table(name)
        if table is None:
            return []
        files = table.holding(stretches, which.uuids)
        return self.folds.instead(table, files) if name == "readings" else files

    def source(self, name: str, files: Sequence[Held], conditions: Conditions) -> str:
        """A table of these files, for the FROM of a statement."""
        paths = self.database.paths(name, [file.path for file in files])
        return f"read_parquet({conditions.bind(paths)}, hive_partitioning = false)"

    def ask(
        self, sql: str, params: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        return self.database.ask(sql, params, tables)

    def share(self, which: Selection) -> float:
        """About what part of all rows are of the GPUs that were named."""
        gpus = self.table("gpus")
        known = sum(file.rows for file in gpus.files()) if gpus is not None else 0
        return min(1.0, len(which.uuids) / known) if which.uuids and known else 1.0


def as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly the columns of a schema."""
    columns = [_column(rows, field) for field in schema]
    return pa.table(columns, schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    column = rows.column(field.name)
    return column if column.type == field.type else column.cast(field.type)
