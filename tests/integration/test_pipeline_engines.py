"""The tables are open: Spark, DuckDB and delta-rs read the same rows and the same sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from nexus.lake.fence import Fence
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.pipeline.derive.follower import Follower
from nexus.pipeline.narrow import unreadable
from nexus.pipeline.sink.delta_sink import DeltaSink
from nexus.pipeline.sink.port import Batch
from nexus.pipeline.validate import validate
from nexus.telemetry.tables import TABLES
from support.derived import expected_rollup
from support.narrow_rows import narrow_rows
from support.readings import NOON_US
from support.reckoning import WIDTHS, WRITTEN, same_tables
from support.spark import spark_session

Reader = Callable[[StoreUrl, str], pa.Table]
BEFORE_MIDNIGHT_US = NOON_US + 43_140_000_000


def rows(batch: int) -> pa.Table:
    """Readings of two days, some with odd texts and one that must be refused."""
    made = [
        {
            "uuid": f"GPU-{gpu}",
            "timestamp": BEFORE_MIDNIGHT_US + (40 * batch + second) * 1_000_000,
            "ingested": BEFORE_MIDNIGHT_US,
            "source_value": gpu + second / 7,
            "pod": 'a "quoted" pod, μ' if gpu == 1 else "",
            "labels": f'{{"gpu":"{gpu}"}}',
        }
        for gpu in range(3)
        for second in range(40)
    ]
    good = narrow_rows([*made, {**made[0], "source_value": -4000.0}], partition=batch)
    return pa.concat_tables([good, pa.Table.from_batches([unreadable([7], [9], ["?"], [b"\0x"])])])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StoreUrl:
    """Every table, after two batches."""
    place = parse_store_url(f"delta://{tmp_path_factory.mktemp('lake')}/it's a lake")
    spark, fence = spark_session(), Fence(1, "test")
    sink = DeltaSink(spark, place, fence)
    for number in range(2):
        frame = validate(spark.createDataFrame(rows(number)))
        sink.store(Batch(frame, "test", number, "topic"))
    Follower(spark, place, fence).step(drain=True)
    return place


def files_of(store: StoreUrl, name: str) -> list[str]:
    """The files that a table's log names."""
    return [unquote(uri) for uri in DeltaTable(store.table_uri(name)).file_uris()]


def by_delta_rs(store: StoreUrl, name: str) -> pa.Table:
    return DeltaTable(store.table_uri(name)).to_pyarrow_table()


def by_duckdb(store: StoreUrl, name: str) -> pa.Table:
    """The files alone: DuckDB's extension for Delta cannot be had everywhere."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        query = "SELECT * FROM read_parquet($files, hive_partitioning = $parted)"
        given = {"files": files_of(store, name), "parted": bool(TABLES[name].partitions)}
        return database.sql(query, params=given).to_arrow_table()


def by_spark_files(store: StoreUrl, name: str) -> pa.Table:
    reader = spark_session().read.option("basePath", store.table_uri(name))
    return reader.parquet(*files_of(store, name)).toArrow()


def by_spark_source(store: StoreUrl, name: str) -> pa.Table:
    reader = spark_session().read.format("nexus-table")
    return reader.options(store=str(store), table=name).load().toArrow()


READERS: Mapping[str, Reader] = {
    "DuckDB": by_duckdb,
    "Spark, the files": by_spark_files,
    "Spark, our source": by_spark_source,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_engine_reads_the_same_rows_and_sums(store: StoreUrl, name: str) -> None:
    schema = TABLES[name].schema
    wanted = by_delta_rs(store, name).select(schema.names).cast(schema)
    assert wanted.num_rows
    for engine, read in READERS.items():
        found = read(store, name).select(schema.names).cast(schema)
        assert sums(found) == pytest.approx(sums(wanted), rel=1e-12), engine
        same_tables(found, wanted)


def test_what_they_read_is_what_was_stored(store: StoreUrl) -> None:
    readings = by_delta_rs(store, "readings")
    assert readings.num_rows == 2 * 3 * 40
    assert by_delta_rs(store, "quarantine").num_rows == 2 * 2
    for name, width in WIDTHS.items():
        wanted = expected_rollup(readings, width)
        found = by_duckdb(store, name)
        assert found.num_rows == len(wanted)
        assert pc.sum(found.column("count")).as_py() == readings.num_rows


def sums(table: pa.Table) -> dict[str, float]:
    """Of every column of numbers, and the times as numbers."""
    numbers = {"rows": float(table.num_rows)}
    for field in table.schema:
        column = table.column(field.name)
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.int64())
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            numbers[field.name] = float(pc.sum(column.cast(pa.float64())).as_py() or 0.0)
    return numbers
