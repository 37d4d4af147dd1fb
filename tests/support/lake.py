"""Delta tables for tests: stores in a folder, readings by the row, and files of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from nexus.lake.datafile import DataFile
from nexus.lake.fence import Fence
from nexus.lake.files import NewFile, TableFiles
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES

READINGS = TABLES["readings"]
MIDNIGHT = datetime(2025, 7, 18, tzinfo=UTC)
NOON = MIDNIGHT + timedelta(hours=12)
FENCE = Fence(1, "test")


def store_in(folder: Path) -> StoreUrl:
    return parse_store_url(f"delta://{folder}")


def readings_at(
    moments: Sequence[datetime],
    uuid: str = "GPU-1",
    ingested: datetime | None = None,
    values: Sequence[float] | None = None,
) -> pa.Table:
    """Canonical readings of one GPU at these times."""
    count = len(moments)
    said: dict[str, Sequence[object]] = {
        "timestamp": moments,
        "ingested": [ingested or moment for moment in moments],
        "source_value": values or [float(number) for number in range(count)],
        "value": values or [float(number) for number in range(count)],
        "uuid": [uuid] * count,
        "metric": ["temperature"] * count,
    }
    columns = [pa.array(said.get(f.name, [""] * count), f.type) for f in READING_SCHEMA]
    return pa.table(columns, schema=READING_SCHEMA)


def every_second(count: int, start: datetime = NOON, uuid: str = "GPU-1") -> pa.Table:
    return readings_at([start + timedelta(seconds=n) for n in range(count)], uuid)


def written(files: TableFiles, rows: pa.Table, day: str = "2025-07-18") -> NewFile:
    """A file with these rows that no commit names."""
    with files.writer({"day": day} if files.spec.partitions else {}) as writer:
        writer.write(rows)
    assert writer.file is not None
    return writer.file


def append(table: LakeTable, *tables: pa.Table, app: str = "app", fence: Fence = FENCE) -> int:
    """Commit each of these as a file, as the next number of an app."""
    table.refresh()
    last = table.transaction_version(app)
    files = [written(table.files_of, rows, _day(rows)) for rows in tables]
    return table.append(files, app, 0 if last is None else last + 1, fence)


def rows_of(table: LakeTable, files: Sequence[DataFile] | None = None) -> pa.Table:
    """All rows of a table's newest version, or of some files, in a plain order."""
    if files is None:
        table.refresh()
        files = table.files()
    batches = list(table.files_of.read([file.path for file in files]))
    rows = pa.Table.from_batches(batches, schema=table.spec.schema)
    return rows.sort_by([("uuid", "ascending"), ("timestamp", "ascending")])


def _day(rows: pa.Table) -> str:
    moment: datetime = rows.column("timestamp")[0].as_py()
    return moment.date().isoformat()
