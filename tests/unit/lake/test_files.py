"""Files of a table: what is written comes back, and what fails leaves nothing."""

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from nexus.lake import files as lake_files
from nexus.lake.files import TableFiles
from nexus.telemetry.reading import READING_SCHEMA, encoded
from nexus.telemetry.tables import TABLES
from support.lake import NOON, READINGS, every_second, readings_at, store_in, written


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(store_in(tmp_path), READINGS)


def all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def as_table(files: TableFiles, paths: list[str]) -> pa.Table:
    return pa.Table.from_batches(list(files.read(paths)), schema=READINGS.schema)


def encode_text(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(index, field.name, encoded(table.column(index)))
    return table


def test_rows_come_back_with_the_day_of_their_folder(files: TableFiles) -> None:
    rows = every_second(10)
    file = written(files, rows)
    assert file.path.startswith("day=2025-07-18/part-")
    assert (file.rows, dict(file.partition)) == (10, {"day": "2025-07-18"})
    back = as_table(files, [file.path])
    assert back.drop_columns("day").equals(rows)
    assert back.column("day").to_pylist() == [date(2025, 7, 18)] * 10


def test_the_day_is_not_inside_the_file(files: TableFiles, tmp_path: Path) -> None:
    file = written(files, every_second(1))
    footer = pq.read_metadata(tmp_path / "readings" / file.path)
    assert [footer.schema.column(i).path for i in range(footer.num_columns)] == READING_SCHEMA.names
    assert footer.row_group(0).column(0).compression == "ZSTD"
    assert file.size == (tmp_path / "readings" / file.path).stat().st_size


def test_encoded_and_plain_text_may_be_written_to_one_file(files: TableFiles) -> None:
    plain, other = every_second(3), every_second(3, uuid="GPU-2")
    with files.writer({"day": "2025-07-18"}) as writer:
        writer.write(encode_text(plain))
        writer.write(other)
        writer.write(encode_text(other).to_batches()[0])
    assert writer.file is not None
    back = as_table(files, [writer.file.path])
    assert back.column("uuid").to_pylist() == ["GPU-1"] * 3 + ["GPU-2"] * 6


def test_a_row_group_keeps_one_dictionary_a_column(
    files: TableFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_files, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(lake_files, "HELD_ROWS", 100)
    with files.writer({"day": "2025-07-18"}) as writer:
        for number in range(30):  # each with a dictionary of its own
            writer.write(encode_text(every_second(10, uuid=f"GPU-{number}")))
    assert writer.file is not None
    footer = pq.read_metadata(tmp_path / "readings" / writer.file.path)
    uuid = READING_SCHEMA.get_field_index("uuid")
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [100, 100, 100]
    assert all("PLAIN" not in group.column(uuid).encodings[1:] for group in groups)
    assert all(group.column(uuid).has_dictionary_page for group in groups)


def test_text_may_be_read_as_dictionaries(files: TableFiles) -> None:
    file = written(files, every_second(4))
    batch = next(iter(files.read([file.path], ["uuid", "value", "day"], encoded=True)))
    assert pa.types.is_dictionary(batch.schema.field("uuid").type)
    assert batch.schema.names == ["uuid", "value", "day"]


def test_rows_are_filtered_also_by_day(files: TableFiles) -> None:
    paths = [
        written(files, every_second(5)).path,
        written(files, every_second(5, NOON + timedelta(days=1)), "2025-07-19").path,
    ]
    wanted = (pc.field("day") == date(2025, 7, 19)) & (pc.field("value") >= 3)
    batches = list(files.read(paths, ["value"], wanted))
    assert pa.Table.from_batches(batches).column("value").to_pylist() == [3, 4]


def test_a_file_that_fails_leaves_nothing(files: TableFiles, tmp_path: Path) -> None:
    def fail() -> None:
        with files.writer({"day": "2025-07-18"}) as writer:
            writer.write(every_second(5))
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert all_files(tmp_path) == []


def test_a_null_where_none_may_be_is_refused(files: TableFiles, tmp_path: Path) -> None:
    rows = readings_at([NOON])
    index = rows.schema.get_field_index("uuid")
    rows = rows.set_column(index, "uuid", pa.array([None], pa.string()))
    with pytest.raises(pa.ArrowInvalid):
        written(files, rows)
    assert all_files(tmp_path) == []


def test_a_snapshot_without_parts_has_its_files_at_the_top(tmp_path: Path) -> None:
    files = TableFiles(store_in(tmp_path), TABLES["latest"])
    file = written(files, every_second(2))
    assert "/" not in file.path
    assert sum(batch.num_rows for batch in files.read([file.path])) == 2


def test_removing_what_is_not_there_is_well(files: TableFiles, tmp_path: Path) -> None:
    file = written(files, every_second(1))
    files.remove([file.path, file.path, "day=2025-01-01/nothing.parquet"])
    assert all_files(tmp_path) == []


def test_nothing_is_read_of_no_files(files: TableFiles) -> None:
    assert list(files.read([])) == []


def test_rollups_are_packed_for_readers_and_older_files_stay_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = TABLES["rollup_1m"]
    said: dict[str, object] = {
        "start": NOON,
        "last_timestamp": NOON,
        "day": NOON.date(),
        "count": 1,
        "missing": 0,
    }
    said |= dict.fromkeys(("min", "max", "mean", "last", "p50", "p95", "p99"), 0.5)
    rows = pa.Table.from_pylist([{n: said.get(n, "") for n in spec.schema.names}] * 3, spec.schema)
    files = TableFiles(store_in(tmp_path), spec)
    new = written(files, rows)
    monkeypatch.setattr(lake_files, "CODECS", {})
    old = written(files, rows)
    footers = [pq.read_metadata(tmp_path / spec.name / file.path) for file in (new, old)]
    assert [footer.row_group(0).column(0).compression for footer in footers] == ["LZ4", "ZSTD"]
    assert [file.path.split(".")[-2] for file in (new, old)] == ["lz4", "zstd"]
    assert sum(batch.num_rows for batch in files.read([new.path, old.path])) == 6
