"""The data source over a table's own log: by versions, by files, by times, and as a stream."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from nexus.lake.history import commit_name
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.pipeline.narrow import CONTEXT, READING, Widener
from nexus.pipeline.table_source import register
from support.lake import FENCE, NOON, READINGS, append, every_second, rows_of, store_in, written
from support.spark import spark_session

Read = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    spark = spark_session()
    register(spark)
    return spark


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return store_in(tmp_path / "lake")


@pytest.fixture
def table(store: StoreUrl) -> LakeTable:
    """Three versions: 10 readings of one GPU, 20 of another, 30 of the next day."""
    table = LakeTable.open(store, READINGS)
    append(table, every_second(10))
    append(table, every_second(20, uuid="GPU-2"))
    append(table, every_second(30, NOON + timedelta(days=1)))
    return table


@pytest.fixture
def read(spark: SparkSession, store: StoreUrl, table: LakeTable) -> Read:
    def load(**options: str) -> DataFrame:
        given = {"store": str(store), "table": "readings", **options}
        return spark.read.format("nexus-table").options(**given).load()

    return load


def test_a_table_is_read_by_snapshot_version_time_and_file(read: Read, table: LakeTable) -> None:
    whole = read().toArrow().sort_by([("uuid", "ascending"), ("timestamp", "ascending")])
    assert whole.cast(READINGS.schema).equals(rows_of(table))
    assert read(**{"from": "1", "to": "2"}, columns="uuid").distinct().collect()[0].uuid == "GPU-2"
    noon = {"low": "2025-07-18T12:00:03Z", "high": "2025-07-18T12:00:05Z"}
    assert read(**noon).count() == 4
    staged = written(table.files_of, every_second(7)).path  # no commit names it
    assert read(files=json.dumps([staged])).count() == 7
    assert read(files="[]").count() == 0


def test_versions_that_only_moved_rows_add_none(read: Read, table: LakeTable) -> None:
    old = table.files(high=NOON + timedelta(hours=1))
    new = written(table.files_of, rows_of(table, old).drop_columns("day"))
    table.commit([new], old, {}, FENCE, changes_data=False, once=False)
    assert read(**{"from": "3"}).count() == 0
    assert read(**{"from": "0"}).count() == read().count() == 60


def test_the_narrow_form_holds_the_same_readings(read: Read, table: LakeTable) -> None:
    narrow = read(form="narrow").toArrow()
    kinds = narrow.column("kind").to_pylist()
    widener = Widener()
    widener.learn(narrow.filter([kind == CONTEXT for kind in kinds]))
    back = widener.readings(narrow.filter([kind == READING for kind in kinds]))
    back = back.cast(rows_of(table).drop_columns("day").schema)
    order = [("uuid", "ascending"), ("timestamp", "ascending")]
    assert back.sort_by(order).equals(rows_of(table).drop_columns("day"))


def test_a_stream_takes_each_version_once(
    spark: SparkSession, store: StoreUrl, table: LakeTable, tmp_path: Path
) -> None:
    counts: list[int] = []

    def run() -> None:
        stream = spark.readStream.format("nexus-table").options(
            store=str(store), table="readings", columns="uuid,value", max_versions="2"
        )
        query = (
            stream.load()
            .writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert counts == [30, 30], "two versions, then the third"
    append(table, every_second(5))
    run()
    assert counts == [30, 30, 5]


def test_what_went_wrong_is_said_in_words(read: Read, store: StoreUrl, table: LakeTable) -> None:
    table.delta.create_checkpoint()
    for version in range(3):
        (Path(store.uri) / "readings" / commit_name(version)).unlink()
    with pytest.raises(Exception, match="version 1 is no longer in the log"):
        read(**{"from": "0"}).count()
