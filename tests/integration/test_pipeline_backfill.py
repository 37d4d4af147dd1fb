"""Archives of CSV get into the tables whole and once, however often and however far it is run."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from nexus.lake.lock import WriterLock
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.pipeline.backfill import Progress, Totals, run_backfill
from nexus.pipeline.errors import PipelineError
from nexus.pipeline.narrow import READING, UNREADABLE
from nexus.pipeline.sink.delta_sink import DeltaSink
from nexus.pipeline.sink.port import Batch, Sink, Stored
from nexus.pipeline.table_source import register as register_tables
from nexus.telemetry.csv.files import UNKNOWN_FORM
from nexus.telemetry.csv.rows import NOT_A_NUMBER
from support.csv_text import LONG_HEADER, long_row
from support.spark import spark_session

CHUNK_BYTES = 100_000
SIMPLE = "timestamp,metric_name,uuid,value,note\n"


def make(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two long files that share a part, a wide one, and one that is none."""
    folder = tmp_path / "archive"
    folder.mkdir()
    rows = [long_row(n, value=str(n % 100)) for n in range(500)]
    rows[123] = long_row(123, value="lots")
    rows[321] = long_row(321, value="101")  # percent
    make(folder / "a.csv", LONG_HEADER + "".join(rows))
    make(folder / "b.csv.gz", LONG_HEADER + "".join([*rows[400:], long_row(999, value="9")]))
    wide = "".join(f"17041104{n:02d},h1,0,{n} W,{n}\n" for n in range(60))
    make(folder / "c.csv", "timestamp,hostname,gpu_id,power [W],DCGM_FI_DEV_GPU_TEMP\n" + wide)
    make(folder / "d.csv", "open,high,low,close\n1,2,3,4\n")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return parse_store_url(f"delta://{tmp_path}/store")


@pytest.fixture
def sink(store: StoreUrl) -> Iterator[Sink]:
    register_tables(spark_session())
    lock = WriterLock(store, "the test")
    yield DeltaSink(spark_session(), store, lock.acquire())
    lock.release()


def backfill(archive: Path, sink: Sink, seen: list[Progress] | None = None) -> Totals:
    return run_backfill(
        spark_session(),
        f"csv://{archive}",
        sink,
        chunk_bytes=CHUNK_BYTES,
        progress=None if seen is None else seen.append,
        cluster="ours",
    )


def table(store: StoreUrl, name: str) -> DeltaTable:
    return DeltaTable(store.table_uri(name))


def rows(store: StoreUrl, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(store, name).to_pyarrow_table().to_pylist()
    return found


def check_tables(store: StoreUrl) -> None:
    """Everything that the archive holds, once."""
    readings = rows(store, "readings")
    assert len(readings) == 498 + 1 + 120
    identities = {(r["uuid"], r["metric"], r["timestamp"]) for r in readings}
    assert len(identities) == len(readings)
    of_dumps = [r["source_value"] for r in readings if r["hostname"].startswith("host-")]
    expected = [float(n % 100) for n in range(500) if n not in (123, 321)]
    assert sorted(of_dumps) == sorted([*expected, 9.0])
    assert {r["cluster"] for r in readings} == {"ours"}
    refused = {(r["reason"], r["partition"]) for r in rows(store, "quarantine")}
    assert {(NOT_A_NUMBER, 0), (UNKNOWN_FORM, 3)} < refused
    assert len(rows(store, "quarantine")) == 3


def test_an_archive_gets_into_the_tables_once(archive: Path, store: StoreUrl, sink: Sink) -> None:
    seen: list[Progress] = []
    totals = backfill(archive, sink, seen)
    check_tables(store)
    assert (totals.files, totals.readings, totals.quarantined) == (4, 619, 3)
    assert totals.duplicates == 100
    assert totals.chunks > 2
    assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)
    assert seen[-1].bytes_done == seen[-1].bytes_total == totals.bytes
    assert seen[-1].totals == totals

    before = [table(store, name).version() for name in ("readings", "quarantine")]
    again = backfill(archive, sink)
    assert [table(store, name).version() for name in ("readings", "quarantine")] == before
    assert (again.readings, again.chunks) == (0, totals.chunks)


class CutOff:
    """A sink whose process dies while a chunk is stored: before that, or after it."""

    def __init__(self, sink: Sink, chunks: int, *, after: bool) -> None:
        self._sink = sink
        self._left = chunks
        self._after = after

    def store(self, batch: Batch) -> Stored:
        self._left -= 1
        if self._left >= 0:
            return self._sink.store(batch)
        if self._after:
            self._sink.store(batch)
        raise KeyboardInterrupt


def test_a_run_that_was_cut_off_goes_on(archive: Path, store: StoreUrl, sink: Sink) -> None:
    for chunks, after in ((0, True), (1, False)):
        with pytest.raises(KeyboardInterrupt):
            backfill(archive, CutOff(sink, chunks, after=after))
    totals = backfill(archive, sink)
    check_tables(store)
    assert 0 < totals.readings < 619


class Memory:
    """A sink that keeps readings and refused lines as Spark gives them, each chunk once."""

    def __init__(self) -> None:
        self.apps: set[str] = set()
        self.values: list[float] = []
        self.refused: list[bytes] = []

    def store(self, batch: Batch) -> Stored:
        if batch.app in self.apps:
            return Stored(replayed=True)
        found = _values(batch.rows)
        self.apps.add(batch.app)
        self.values += [value for kind, value, _ in found if kind == READING]
        self.refused += [text for kind, _, text in found if kind == UNREADABLE]
        return Stored(readings=len(found))


def _values(rows: DataFrame) -> list[tuple[int, float, bytes]]:
    columns = rows.select("kind", "source_value", "text").collect()
    return [(row.kind, row.source_value, bytes(row.text or b"")) for row in columns]


def test_a_file_that_was_split_inside_of_a_cell_is_read_again_in_one_piece(tmp_path: Path) -> None:
    """Its cells hold what looks like rows, so that no guess can be right."""
    inner = "".join(f"1704110402,m,GPU-9,{n},y\n" for n in range(500))
    text = "".join(f'1704110401,m,GPU-{n},{n},"a\n{inner}"\n' for n in range(6))
    make(tmp_path / "a.csv", SIMPLE + "1704110401,m,GPU-0,100,x\n" * 50)
    make(tmp_path / "b.csv", SIMPLE + text)
    make(tmp_path / "c.csv", SIMPLE + "1704110401,m,GPU-0,200,x\n" * 50)
    sink = Memory()
    url = f"csv://{tmp_path}/*.csv"
    totals = run_backfill(spark_session(), url, sink, chunk_bytes=30_000)
    assert sorted(sink.values) == [*map(float, range(6)), *[100.0] * 50, *[200.0] * 50]
    assert sink.refused == []
    again = run_backfill(spark_session(), url, sink, chunk_bytes=30_000)
    assert (again.replayed, again.chunks) == (again.chunks, totals.chunks)
    assert len(sink.values) == 106


def test_what_stops_it_is_said_without_sparks_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    make(path, SIMPLE + "1704110401,m,GPU-0,1,x\n")

    class Late(Memory):
        def store(self, batch: Batch) -> Stored:
            path.unlink()
            return super().store(batch)

    with pytest.raises(PipelineError) as raised:
        run_backfill(spark_session(), str(path), Late())
    assert str(raised.value) == (
        f"backfill stopped: {path} cannot be read: No such file or directory"
    )
