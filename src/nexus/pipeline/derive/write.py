"""What the tasks that write derived tables do: keep the right row of each key, and write files.

The rows of the files that are replaced come together with those computed anew. Of two rows for
one window that made of more readings is kept: readings are only ever added, so fewer of them
means that retention has removed some, and then the old row is the better one. On days of which
readings are known to be removed, the old row stays whatever comes. That also makes every piece
of work safe to repeat.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.files import NewFile, TableFiles
from nexus.lake.merge import in_order
from nexus.pipeline.derive.gpus import gpus_of
from nexus.pipeline.derive.latest import FIRST
from nexus.pipeline.derive.numbered import SERIES, Told, first_of_each
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, TIMESTAMP
from nexus.telemetry.scalars import scalar, whole
from nexus.telemetry.tables import TableSpec

Batches = Iterator[pa.RecordBatch]
WRITTEN: Final = "table string, file string"
AGE: Final = "is_old"  # a row of a file that is replaced
_WEIGHT: Final = "readings"
_MOST: Final = 2**62


def written_files(rows: Sequence[Any]) -> dict[str, list[NewFile]]:
    """What the tasks wrote, by table, of the rows that Spark gives to the driver."""
    files: dict[str, list[NewFile]] = {}
    for row in rows:
        files.setdefault(row.table, []).append(NewFile(**json.loads(row.file)))
    return files


def write_rollup(
    files: TableFiles, final: frozenset[date] = frozenset(), *, renew: bool = False
) -> Callable[[Batches], Batches]:
    """A task's work for a rollup: its rows into a file for each day.

    Rows of `final` days are not replaced; with `renew`, rows made of as many readings are.
    """

    def write(batches: Batches) -> Batches:
        rows = _table(batches)
        if rows is None:
            return
        told = Told(rows)
        kept = first_of_each(
            told.rows.append_column(_WEIGHT, _weight(told.rows, final)),
            (*SERIES, "start"),
            {_WEIGHT: "descending", AGE: "ascending" if renew else "descending"},
        )
        yield from _written(files, _rollup_rows(kept, told, files.spec))

    return write


def _weight(rows: pa.Table, final: frozenset[date]) -> pa.ChunkedArray:
    """How many readings a row is made of, or more than any for one that must stay."""
    readings = pc.add(rows.column("count"), rows.column("missing"))
    if not final:
        return readings
    days = pa.array(sorted(final), pa.date32())
    is_final = pc.is_in(rows.column("start").cast(pa.date32()), value_set=days)
    return pc.if_else(pc.and_(is_final, rows.column(AGE)), whole(_MOST), readings)


def write_snapshots(
    latest: TableFiles, gpus: TableFiles, known: pa.Table, oldest_us: int | None
) -> Callable[[Batches], Batches]:
    """The one task's work for `latest` and `gpus`; series that ended before `oldest_us` go."""

    def write(batches: Batches) -> Batches:
        rows = _table(batches)
        if rows is None:
            return
        told = Told(rows)
        last = _with_text(told.rows, told, READING_SCHEMA)
        new = told.rows.filter(pc.is_valid(told.rows.column(FIRST)))
        who = pa.table({**told.texts(new, ("uuid", "mig")), "first_seen": new.column(FIRST)})
        yield from _written(gpus, gpus_of(last, who, known))
        yield from _written(latest, _not_before(last, oldest_us))

    return write


def _table(batches: Batches) -> pa.Table | None:
    held = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(held) if held else None


def _rollup_rows(rows: pa.Table, told: Told, spec: TableSpec) -> pa.Table:
    schema = pa.schema([field for field in spec.schema if field.name not in spec.partitions])
    return _with_text(rows, told, schema).append_column(
        "day", rows.column("start").cast(pa.date32())
    )


def _with_text(rows: pa.Table, told: Told, schema: pa.Schema) -> pa.Table:
    texts = told.texts(rows, [f.name for f in schema if pa.types.is_string(f.type)])
    columns: Mapping[str, Any] = {
        field.name: texts[field.name] if field.name in texts else rows.column(field.name)
        for field in schema
    }
    return pa.table(columns)


def _not_before(rows: pa.Table, oldest_us: int | None) -> pa.Table:
    if oldest_us is None:
        return rows
    oldest = scalar(oldest_us, pa.int64()).cast(TIMESTAMP)
    return rows.filter(pc.greater_equal(rows.column("timestamp"), oldest))


def _written(files: TableFiles, rows: pa.Table) -> Batches:
    """Files with these rows, in the order of all files (see `merge`), one for each partition."""
    if not rows.num_rows:
        return
    made: list[NewFile] = []
    for part, share in _parts(rows, files.spec):
        with files.writer(part) as writer:
            for sorted_rows in in_order(files.spec, share.take(_by_series(share))):
                writer.write(sorted_rows)
        assert writer.file is not None
        made.append(writer.file)
    yield pa.record_batch(
        {
            "table": pa.array([files.spec.name] * len(made), pa.string()),
            "file": pa.array([json.dumps(asdict(file)) for file in made], pa.string()),
        }
    )


def _by_series(rows: pa.Table) -> pa.Array:
    """An order for the rows of one GPU and time, so that the same rows make the same file."""
    names = [name for name in SERIES_COLUMNS if name in rows.column_names]
    columns = {name: rows.column(name).cast(pa.string()) for name in names}
    return pc.sort_indices(pa.table(columns), [(name, "ascending") for name in names])


def _parts(rows: pa.Table, spec: TableSpec) -> Iterator[tuple[dict[str, str], pa.Table]]:
    if not spec.partitions:
        yield {}, rows
        return
    for day in pc.unique(rows.column("day")):
        yield {"day": str(day)}, rows.filter(pc.equal(rows.column("day"), day))
