"""Of two rows for one window the better is written, each to the file of its day."""

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row as SparkRow

from nexus.lake.files import NewFile, TableFiles
from nexus.pipeline.derive.numbered import Numberer, numbered_schema
from nexus.pipeline.derive.rollup import MEASURES
from nexus.pipeline.derive.rollup_table import TEXT
from nexus.pipeline.derive.write import write_rollup, written_files
from nexus.telemetry.tables import TABLES
from support.derived import HOUR, MINUTE, NOON
from support.lake import store_in

ROLLUP = TABLES["rollup_1m"]
_FIELDS = [ROLLUP.schema.field(name) for name in ("start", *MEASURES)]


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(store_in(tmp_path), ROLLUP)


def row(minute: int, count: int, **more: object) -> dict[str, Any]:
    usual = {"start": NOON + minute * MINUTE, "count": count, "missing": 0, "uuid": "GPU-1"}
    return {**usual, **more}


def batches(rows: Iterable[dict[str, Any]], *, is_old: bool) -> Iterable[pa.RecordBatch]:
    names = [*TEXT, *(f.name for f in _FIELDS)]
    full = [{**dict.fromkeys(TEXT, ""), **row} for row in rows]
    kinds = {name: ROLLUP.schema.field(name).type for name in names}
    table = pa.table({n: pa.array([r.get(n) for r in full], kinds[n]) for n in names})
    for batch in Numberer(TEXT, numbered_schema(_FIELDS), None).batches(table):
        yield batch.append_column("is_old", pa.repeat(pa.scalar(is_old), batch.num_rows))


def written(
    files: TableFiles,
    new: Iterable[dict[str, Any]],
    old: Iterable[dict[str, Any]] = (),
    final: frozenset[date] = frozenset(),
    *,
    renew: bool = False,
) -> list[NewFile]:
    rows = [*batches(new, is_old=False), *batches(old, is_old=True)]
    write = write_rollup(files, final, renew=renew)
    made = [SparkRow(**said) for batch in write(iter(rows)) for said in batch.to_pylist()]
    return written_files(made).get("rollup_1m", [])


def read(files: TableFiles, made: list[NewFile]) -> pa.Table:
    return pa.Table.from_batches(files.read([file.path for file in made]), ROLLUP.schema)


def test_a_row_made_of_more_readings_is_kept(files: TableFiles) -> None:
    new = [row(0, 3, mean=3.0), row(1, 1, mean=1.0), row(2, 2, missing=2, mean=4.0)]
    old = [row(0, 2, mean=2.0), row(1, 60, mean=60.0), row(2, 3, mean=3.0)]
    made = read(files, written(files, new, old))
    assert made.column("mean").to_pylist() == [3.0, 60.0, 4.0]


@pytest.mark.parametrize(("renew", "kept"), [(False, "old"), (True, "new")])
def test_where_both_know_as_much_the_stored_row_stays_unless_renewed(
    files: TableFiles, renew: bool, kept: str
) -> None:
    new, old = [row(0, 2, hostname="new")], [row(0, 2, hostname="old")]
    made = read(files, written(files, new, old, renew=renew))
    assert made.column("hostname").to_pylist() == [kept]


def test_on_a_day_of_which_readings_were_removed_stored_rows_stay(files: TableFiles) -> None:
    tomorrow = 24 * 60
    new = [row(0, 5, mean=5.0), row(1, 5, mean=5.0), row(tomorrow, 5, mean=5.0)]
    old = [row(0, 2, mean=2.0), row(tomorrow, 2, mean=2.0)]
    made = read(files, written(files, new, old, frozenset({date(2025, 7, 18)})))
    assert made.sort_by("start").column("mean").to_pylist() == [2.0, 5.0, 5.0]


def test_what_only_one_side_has_is_kept(files: TableFiles) -> None:
    old = [row(0, 1, uuid="GPU-2"), row(5, 1)]
    made = read(files, written(files, [row(0, 1)], old))
    assert made.num_rows == 3


def test_each_day_has_a_file_in_the_order_of_gpu_and_time(files: TableFiles) -> None:
    rows = [
        row(hours * 60, 1, uuid=uuid, metric=metric)
        for hours in (13, 0, 12, 1)
        for uuid in ("GPU-b", "GPU-a")
        for metric in ("y", "x")
    ]
    made = written(files, rows)
    assert sorted((file.partition["day"], file.rows) for file in made) == [
        ("2025-07-18", 8),
        ("2025-07-19", 8),
    ]
    for file in made:
        found = read(files, [file])
        order = pc.sort_indices(
            found, [(name, "ascending") for name in ("uuid", "start", "metric")]
        )
        assert order.to_pylist() == list(range(8))
    starts = read(files, made).column("start").cast(pa.int64()).to_pylist()
    assert set(starts) == {NOON + hours * HOUR for hours in (0, 1, 12, 13)}


def test_nothing_makes_no_file(files: TableFiles) -> None:
    assert written(files, []) == []
