"""Tables on object storage: commits by conditional puts, a lease, and the same upkeep."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from uuid import uuid4

import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from nexus.lake.errors import (
    Fenced,
    FilesMoved,
    HistoryGone,
    Replayed,
    StoreBusy,
    StoreError,
)
from nexus.lake.fence import Fence
from nexus.lake.files import NewFile, TableFiles
from nexus.lake.lease import LeaseHold
from nexus.lake.lock import WriterLock
from nexus.lake.maintenance import Limits, maintain
from nexus.lake.plan import Sizes, Step
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.pipeline.table_source import register
from support.lake import (
    FENCE,
    NOON,
    READINGS,
    append,
    every_second,
    rows_of,
    written,
)
from support.object_store import CREDENTIALS, object_store, store_at
from support.spark import spark_session


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture
def store(address: str) -> StoreUrl:
    return store_at(address, f"lakes/{uuid4().hex}")


@pytest.fixture
def table(store: StoreUrl) -> LakeTable:
    return LakeTable.open(store, READINGS)


def names_in(table: LakeTable, folder: str) -> list[str]:
    found = table.files_of.filesystem().get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return [info.base_name for info in found]


def test_rows_are_stored_and_found_again(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(10), every_second(10, NOON + timedelta(hours=1)))
    other = LakeTable.open(store, READINGS, create=False)
    assert rows_of(other).num_rows == 20
    (later,) = other.files(low=NOON + timedelta(minutes=30))
    assert later.rows == 10
    assert later.size == table.files_of.filesystem().get_file_info(later.path).size
    assert len(other.added_between(0, 1)) == 2
    with pytest.raises(HistoryGone):
        other.added_between(0, 2)


def test_of_two_commits_on_one_version_the_second_is_put_after_the_first(
    table: LakeTable, store: StoreUrl
) -> None:
    """What a put that does not look would overwrite, a conditional one keeps."""
    stale = LakeTable.open(store, READINGS)
    append(table, every_second(3), app="one")
    stale.append([written(table.files_of, every_second(4))], "two", 0, FENCE)
    assert stale.version == 2
    assert rows_of(table).num_rows == 7
    with pytest.raises(Replayed):
        table.append([written(table.files_of, every_second(4))], "two", 0, FENCE)


def test_a_merge_of_files_that_went_is_refused(table: LakeTable, store: StoreUrl) -> None:
    append(table, every_second(3))
    stale = LakeTable.open(store, READINGS)
    removed = stale.files()
    table.commit((), table.files(), {}, FENCE, once=False)
    with pytest.raises(FilesMoved):
        stale.commit((), removed, {}, FENCE, changes_data=False, once=False)


def test_a_file_that_fails_leaves_nothing(table: LakeTable) -> None:
    def fail() -> None:
        with table.files_of.writer({"day": "2025-07-18"}) as writer:
            writer.write(every_second(3))
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert [name for name in names_in(table, "day=2025-07-18") if name.endswith("parquet")] == []


def test_one_writer_at_a_time_and_the_former_is_shut_out(store: StoreUrl) -> None:
    first, second = WriterLock(store, "first"), WriterLock(store, "second")
    fence = first.acquire()
    table = LakeTable.open(store, READINGS)
    append(table, every_second(1), fence=fence)
    with pytest.raises(StoreBusy, match="first writes to it"):
        second.acquire()
    first.release()
    assert second.acquire() == Fence(2, "second")
    with pytest.raises(Fenced):
        append(table, every_second(1), fence=fence)
    assert second.held_by() == "second"
    second.release()


def test_a_lease_whose_holder_is_gone_runs_out(store: StoreUrl) -> None:
    moment = [1000.0]
    gone = LeaseHold(store, lease_s=60, clock=lambda: moment[0])
    assert gone.take("gone") == Fence(1, "gone")
    gone._ended.set()  # as if it had been killed: nobody renews, nobody gives back
    lock = WriterLock(store, "next", LeaseHold(store, lease_s=60, clock=lambda: moment[0]))

    def wait() -> None:
        moment[0] += 25

    assert lock.acquire(wait) == Fence(2, "next")
    assert moment[0] == 1075
    lock.release()


def test_the_upkeep_works_there_too(table: LakeTable, store: StoreUrl) -> None:
    for number in range(4):
        append(table, every_second(5, uuid=f"GPU-{number}"))
    written(table.files_of, every_second(5))  # of a batch that was cut short
    before = rows_of(table)
    sizes = Sizes(steps=(Step(1000, 2000, 64),), least_files=2)
    merged = maintain(store, FENCE, NOON, Limits(sizes=sizes)).tables[0]
    assert (merged.problem, merged.merged, merged.files, merged.vacuumed) == ("", 4, 1, 0)
    assert rows_of(table).equals(before)
    cleaned = maintain(store, FENCE, NOON, Limits(vacuum_hours=0)).tables[0]
    assert cleaned.vacuumed == 5
    assert rows_of(table).equals(before)


def test_a_store_that_does_not_answer_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    nobody = parse_store_url("s3://lake/x?endpoint=http://127.0.0.1:9&region=us-east-1")
    with pytest.raises(StoreError, match="cannot open readings"):
        LakeTable.open(StoreUrl(nobody.uri, (*nobody.options, ("max_retries", "0"))), READINGS)


@pytest.fixture
def spark(address: str) -> Iterator[SparkSession]:
    """A session whose workers have the credentials, as a cluster's machines must."""
    spark = spark_session()
    usual = dict(spark.sparkContext.environment)
    java = spark._jvm
    assert java is not None
    if java.System.getenv("AWS_ACCESS_KEY_ID") is None:  # it is older than the object store
        spark.sparkContext.environment.update(CREDENTIALS)
    register(spark)
    yield spark
    spark.sparkContext.environment = usual
    register(spark)


def test_executors_read_and_write_there(
    spark: SparkSession, table: LakeTable, store: StoreUrl
) -> None:
    append(table, every_second(10), every_second(10, uuid="GPU-2"))
    options = {"store": str(store), "table": "readings"}
    found = spark.read.format("nexus-table").options(**options).load()
    rows = found.drop("day").mapInArrow(_copied(table.files_of), "file string").collect()
    files = [NewFile(**json.loads(row.file)) for row in rows]
    table.append(files, "copies", 0, FENCE)
    assert rows_of(table).num_rows == 40
    assert spark.read.format("nexus-table").options(**options).load().count() == 40


def _copied(files: TableFiles) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: write its rows to a file of its own, and name it."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with files.writer({"day": "2025-07-18"}) as writer:
                writer.write(batch)
            assert writer.file is not None
            yield pa.RecordBatch.from_pylist([{"file": json.dumps(asdict(writer.file))}])

    return run
