"""A scan gives the rows that were asked for, from files that may hold more."""

import random
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from nexus.lake.datafile import DataFile
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.derive.numbered import Told
from nexus.pipeline.derive.scan import Scan, dealt
from nexus.pipeline.derive.touched import look_into
from nexus.pipeline.derive.windows import Span, micros, moment_of
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES
from support.derived import MINUTE, NOON, any_readings, canonical, put
from support.lake import store_in

TEXT = tuple(f.name for f in READING_SCHEMA if pa.types.is_string(f.type))
SPAN = 60 * MINUTE


@pytest.fixture(scope="module")
def readings() -> pa.Table:
    return any_readings(random.Random(1), 400, SPAN)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, readings: pa.Table) -> StoreUrl:
    made = store_in(Path(tmp_path_factory.mktemp("lake")))
    put(made, *(readings.slice(start, 100) for start in range(0, 400, 100)))
    return made


def scan(
    store: StoreUrl,
    spans: tuple[Span, ...] | None = None,
    uuids: tuple[str, ...] | None = None,
    *,
    outside: bool = False,
) -> set[tuple[str, int, float | None]]:
    table = LakeTable.open(store, TABLES["readings"])
    paths = tuple(file.path for file in table.files())
    one = Scan(table.files_of, TEXT, ("timestamp", "value"), (paths,), spans, uuids, outside)
    told = Told(pa.Table.from_batches(list(one.task(paths)), one.schema))
    uuid = told.texts(told.rows, ("uuid",))["uuid"].to_pylist()
    moments = [micros(moment) for moment in told.rows.column("timestamp").to_pylist()]
    return set(zip(uuid, moments, told.rows.column("value").to_pylist(), strict=True))


def wanted(
    readings: pa.Table, spans: tuple[Span, ...], uuids: tuple[str, ...] | None
) -> set[tuple[str, int, float | None]]:
    rows = [(r["uuid"], micros(r["timestamp"]), r["value"]) for r in readings.to_pylist()]
    return {
        row
        for row in rows
        if any(span.low <= row[1] < span.high for span in spans)
        and (uuids is None or row[0] in uuids)
    }


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("uuids", [None, ("GPU-1", "GPU-3")])
def test_rows_are_those_of_the_spans_and_gpus(
    store: StoreUrl, readings: pa.Table, count: int, uuids: tuple[str, ...] | None
) -> None:
    width = SPAN // count
    spans = tuple(Span(NOON + n * width, NOON + n * width + width // 2) for n in range(count))
    some = wanted(readings, spans, uuids)
    assert 0 < len(some) < readings.num_rows
    assert scan(store, spans, uuids) == some
    everything = wanted(readings, (Span(NOON, NOON + SPAN),), None)
    assert scan(store, spans, uuids, outside=True) == everything - some


def test_without_spans_it_is_everything(store: StoreUrl, readings: pa.Table) -> None:
    assert scan(store) == wanted(readings, (Span(NOON, NOON + SPAN),), None)


def test_files_are_dealt_out_once_each_and_in_order_of_time() -> None:
    rng = random.Random(2)
    files = [data_file(str(n), rows=rng.randrange(1, 2_000_000), minute=n) for n in range(50)]
    tasks = dealt(rng.sample(files, 50), 2)
    assert [path for task in tasks for path in task] == [file.path for file in files]
    rows = {file.path: file.rows for file in files}
    assert max(sum(rows[path] for path in task) for task in tasks) <= 3_000_000


def test_few_rows_still_make_work_for_every_core() -> None:
    files = [data_file(str(n), rows=10, minute=n) for n in range(8)]
    assert [len(task) for task in dealt(files, 2)] == [4, 4]
    assert dealt([], 2) == ()


def test_late_files_are_looked_into_for_windows_and_gpus(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    rows = [{"uuid": f"GPU-{n}", "timestamp": NOON + n} for n in range(5)]
    rows += [{"uuid": "GPU-1", "timestamp": NOON + 7 * MINUTE}]
    rows += [{"uuid": "GPU-1", "timestamp": NOON + 7 * MINUTE + 1}]
    put(store, canonical(rows))
    table = LakeTable.open(store, TABLES["readings"])
    [file] = table.files()
    look = look_into(table.files_of, [[file.path]], MINUTE, uuids_max=3)
    found = pa.Table.from_batches(look(iter([pa.record_batch({"id": [0]})])))
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == [
        (NOON, None),
        (NOON + 7 * MINUTE, "GPU-1"),
    ]


def data_file(path: str, rows: int, minute: int) -> DataFile:
    low = moment_of(NOON) + timedelta(minutes=minute)
    return DataFile(path, 1, rows, {"day": "2025-07-18"}, {}, 0, low, low)
