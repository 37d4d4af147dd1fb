"""Merging files: every row once, and in order if each file was."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nexus.lake.compaction import compact, write_merged
from nexus.lake.errors import StoreError
from nexus.lake.files import TableFiles
from nexus.lake.merge import gpu_order, merged
from nexus.lake.plan import Merge
from nexus.lake.table import LakeTable
from nexus.pipeline.narrow import Narrower
from nexus.telemetry.reading import encoded
from nexus.telemetry.tables import TABLES
from support.lake import (
    FENCE,
    MIDNIGHT,
    READINGS,
    append,
    every_second,
    readings_at,
    rows_of,
    store_in,
)
from support.readings import examples

Row = tuple[str, int, float]
uuids = st.sampled_from(["GPU-a", "GPU-b", "MIG-aa", "host/1", ""])
rows = st.lists(st.tuples(uuids, st.integers(0, 9), st.floats(0, 9)), max_size=12)


def order(row: Row) -> tuple[bytes, int]:
    return gpu_order(row[0]), row[1]


def batches_of(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    made = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        columns = {
            "uuid": encoded(pa.array([uuid for uuid, _, _ in part], pa.string())),
            "timestamp": pa.array(
                [MIDNIGHT + timedelta(seconds=second) for _, second, _ in part],
                READINGS.schema.field("timestamp").type,
            ),
            "value": pa.array([value for _, _, value in part], pa.float64()),
        }
        made.append(pa.record_batch(columns))
    return made


def merged_rows(inputs: list[list[Row]], size: int, waiting: int = 1000) -> list[Row]:
    found: list[Row] = []
    for table in merged(READINGS, [batches_of(rows, size) for rows in inputs], waiting):
        seconds = [(moment - MIDNIGHT).seconds for moment in table["timestamp"].to_pylist()]
        found += zip(table["uuid"].to_pylist(), seconds, table["value"].to_pylist(), strict=True)
    return found


@examples(150)
@given(st.lists(rows, max_size=5), st.integers(1, 4))
def test_sorted_files_become_one_that_is_sorted(inputs: list[list[Row]], size: int) -> None:
    inputs = [sorted(rows, key=order) for rows in inputs]
    found = merged_rows(inputs, size)
    assert sorted(found) == sorted(row for rows in inputs for row in rows)
    assert [order(row) for row in found] == sorted(order(row) for row in found)


@examples(100)
@given(st.lists(rows, max_size=5), st.integers(1, 4), st.sampled_from([0, 3, 1000]))
@example([[("GPU-b", 1, 0.0), ("GPU-a", 1, 1.0)], [("GPU-a", 2, 2.0), ("GPU-a", 3, 3.0)]], 2, 99)
def test_no_row_is_lost_of_files_in_any_order(
    inputs: list[list[Row]], size: int, waiting: int
) -> None:
    found = merged_rows(inputs, size, waiting)
    assert sorted(found) == sorted(row for rows in inputs for row in rows)


def test_gpus_are_ordered_as_the_sink_orders_them() -> None:
    names = ["GPU-1a2b3c4d-1", "MIG-0a2b3c4d-2", "GPU-ff2b3c4d-3", "dgx-1/0", "GPU-0b", ""]
    places = [pa.array([0], kind) for kind in (pa.int32(), pa.int64(), pa.int32())]

    def sink_key(name: str) -> int:
        *_, rows = Narrower().batches(readings_at([MIDNIGHT], name), *places)
        return int(rows.column("gpu_key")[0].as_py())

    assert sorted(names, key=gpu_order) == sorted(names, key=sink_key)


def test_a_merge_of_readings_keeps_every_column(tmp_path: Path) -> None:
    table = LakeTable.open(store_in(tmp_path), READINGS)
    append(table, *(every_second(50, uuid=f"GPU-{number}") for number in range(8)))
    before, merge = rows_of(table), Merge(tuple(table.files()))
    new = compact(table, merge, FENCE)
    assert new is not None
    assert rows_of(table).equals(before)
    (file,) = table.files()
    assert (file.path, file.rows) == (new.path, 400)
    assert file.bounds["uuid"] == ("GPU-0", "GPU-7")
    assert file.modified_ms == max(old.modified_ms for old in merge.files)


def test_a_merge_in_pieces_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexus.lake.compaction.AT_ONCE_ROWS", 10)
    monkeypatch.setattr("nexus.lake.compaction.STREAMED_ROWS", 7)
    table = LakeTable.open(store_in(tmp_path), READINGS)
    for start in range(3):
        moment = MIDNIGHT + timedelta(microseconds=start)
        parts = [every_second(20, moment, f"GPU-{number}") for number in range(3)]
        append(table, pa.concat_tables(parts))
    before = rows_of(table)
    compact(table, Merge(tuple(table.files())), FENCE)
    (file,) = table.files()
    found = pa.Table.from_batches(list(table.files_of.read([file.path])))
    assert found.equals(before), "in order as it stands in the file"


def test_tables_without_gpus_are_merged_by_time(tmp_path: Path) -> None:
    spec = TABLES["quarantine"]
    files = TableFiles(store_in(tmp_path), spec)

    def refused(second: int) -> pa.Table:
        moment = MIDNIGHT + timedelta(seconds=second)
        said = {"refused": moment, "partition": 1, "offset": second, "row": 0, "raw": b"x"}
        columns = [pa.array([said.get(f.name, "")], f.type) for f in files.schema]
        return pa.table(columns, schema=files.schema)

    table = LakeTable.open(store_in(tmp_path), spec)
    for number, second in enumerate((3, 1, 2)):
        with files.writer({"day": "2025-07-18"}) as writer:
            writer.write(refused(second))
        assert writer.file is not None
        table.append([writer.file], "app", number, FENCE)
    compact(table, Merge(tuple(table.files())), FENCE)
    (file,) = table.files()
    found = pa.Table.from_batches(list(files.read([file.path], ["offset"])))
    assert found["offset"].to_pylist() == [1, 2, 3]


def test_a_merge_that_would_lose_rows_is_not_made(tmp_path: Path) -> None:
    from dataclasses import replace

    table = LakeTable.open(store_in(tmp_path), READINGS)
    append(table, every_second(3), every_second(3))
    first, second = table.files()
    with pytest.raises(StoreError, match="7 rows to merge, but 6 were read"):
        write_merged(table.files_of, Merge((first, replace(second, rows=4))))
    assert len(list(tmp_path.rglob("*.parquet"))) == 2


def test_files_that_went_meanwhile_are_left_alone(tmp_path: Path) -> None:
    table = LakeTable.open(store_in(tmp_path), READINGS)
    append(table, every_second(3), every_second(3))
    merge = Merge(tuple(table.files()))
    assert compact(table, merge, FENCE) is not None
    assert compact(table, merge, FENCE) is None
    assert rows_of(table).num_rows == 6
    assert len(list(tmp_path.rglob("*.parquet"))) == 3, "the second's file is gone"
