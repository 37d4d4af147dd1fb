"""What `spark.read.format("nexus-table")` can be told, as text, and which files that means.

| option | default | meaning |
|---|---|---|
| store | (must be given) | `delta:///path` or `s3://bucket/prefix` |
| table | (must be given) | a table's name, such as `readings` |
| files | | these files and no others: a JSON list of paths inside the table |
| from, to | | the files whose rows came with the versions after `from`, up to `to` (the newest) |
| low, high | open | rows with `low` <= time < `high` (RFC 3339); other files are not opened |
| columns | all | names with commas between them; the form flat only |
| form | flat | flat (the table's columns), or narrow (the collector's own, of `readings`) |
| tasks | twice the cores here | how many tasks read, if there are as many files |

A stream reads added files only: its offsets are versions, `from` is where it starts (0), and
`max_versions` (100) is how many commits a batch takes at most.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.datafile import time_column
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.pipeline.errors import PipelineError
from nexus.telemetry.tables import TABLES, TableSpec

Form = Literal["flat", "narrow"]
_KNOWN: Final = frozenset(
    {
        *("store", "table", "files", "from", "to", "low", "high"),
        *("columns", "form", "tasks", "max_versions"),
    }
)


class BadTableOption(PipelineError):
    """Raised when an option of the data source says something that cannot be."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options, parsed; the same for every task of a query."""

    store: StoreUrl
    table: str
    files: tuple[str, ...] | None
    after: int | None
    upto: int | None
    low: datetime | None
    high: datetime | None
    columns: tuple[str, ...]
    form: Form
    tasks: int
    max_versions: int

    @property
    def spec(self) -> TableSpec:
        return TABLES[self.table]

    def row_filter(self) -> pc.Expression | None:
        """What rows must be, where files hold more than was asked for."""
        moment = time_column(self.spec)
        if moment is None:
            return None
        wanted = None
        if self.low is not None:
            wanted = pc.field(moment) >= _scalar(self.low)
        if self.high is not None:
            before = pc.field(moment) < _scalar(self.high)
            wanted = before if wanted is None else wanted & before
        return wanted

    def open(self) -> LakeTable:
        return LakeTable.open(self.store, self.spec, create=False)

    def chosen_files(self) -> list[str]:
        """The paths to read, of a batch."""
        if self.files is not None:
            return list(self.files)
        table = self.open()
        if self.after is None:
            return [file.path for file in table.files(self.low, self.high)]
        upto = table.version if self.upto is None else self.upto
        return self.added(table, self.after, upto)

    def added(self, table: LakeTable, after: int, upto: int) -> list[str]:
        """The paths that versions brought and that may hold rows which were asked for."""
        files = table.added_between(after, upto)
        return [
            file.path
            for file in files
            if (self.low is None or file.high is None or file.high >= self.low)
            and (self.high is None or file.low is None or file.low < self.high)
        ]


def parse_table_options(options: Mapping[str, str]) -> TableOptions:
    """What the options mean; BadTableOption says what would be right."""
    said = {name.lower(): text.strip() for name, text in options.items()}
    if unknown := sorted(said.keys() - _KNOWN):
        raise BadTableOption(f"unknown option {unknown[0]}; known are {', '.join(sorted(_KNOWN))}")
    table = said.get("table", "")
    if table not in TABLES:
        raise BadTableOption(f'option table: no table "{table}"; there are {", ".join(TABLES)}')
    return TableOptions(
        store=parse_store_url(said.get("store", "")),
        table=table,
        files=_files(said),
        after=_whole(said, "from"),
        upto=_whole(said, "to"),
        low=_moment(said, "low"),
        high=_moment(said, "high"),
        columns=_columns(said, TABLES[table]),
        form=_form(said, table),
        tasks=_whole(said, "tasks") or 2 * (os.cpu_count() or 1),
        max_versions=_whole(said, "max_versions") or 100,
    )


def shares(paths: Sequence[str], tasks: int) -> list[tuple[str, ...]]:
    """Files dealt out to at most so many tasks."""
    count = min(tasks, len(paths))
    return [tuple(paths[number::count]) for number in range(count)]


def _files(said: Mapping[str, str]) -> tuple[str, ...] | None:
    if "files" not in said:
        return None
    try:
        paths: Any = json.loads(said["files"])
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise BadTableOption("option files: expected a JSON list of paths")
    return tuple(paths)


def _columns(said: Mapping[str, str], spec: TableSpec) -> tuple[str, ...]:
    names = [name.strip() for name in said.get("columns", "").split(",") if name.strip()]
    for name in names:
        if name not in spec.schema.names:
            raise BadTableOption(f'option columns: table {spec.name} has no column "{name}"')
    return tuple(names) or tuple(spec.schema.names)


def _form(said: Mapping[str, str], table: str) -> Form:
    form = said.get("form", "flat")
    if form not in ("flat", "narrow"):
        raise BadTableOption(f'option form: found "{form}", expected flat or narrow')
    if form == "narrow" and (table not in ("readings", "latest") or "columns" in said):
        raise BadTableOption("option form: only whole readings have the form narrow")
    return cast(Form, form)


def _whole(said: Mapping[str, str], name: str) -> int | None:
    if name not in said:
        return None
    try:
        return int(said[name])
    except ValueError:
        raise BadTableOption(f'option {name}: found "{said[name]}", expected a number') from None


def _moment(said: Mapping[str, str], name: str) -> datetime | None:
    if name not in said:
        return None
    try:
        moment = datetime.fromisoformat(said[name])
    except ValueError:
        example = "a time such as 2025-07-18T20:42:34Z"
        raise BadTableOption(f'option {name}: found "{said[name]}", expected {example}') from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _scalar(moment: datetime) -> pa.Scalar:
    return pa.scalar(moment, pa.timestamp("us", tz="UTC"))
