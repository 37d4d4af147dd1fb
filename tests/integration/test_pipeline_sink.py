"""Every reading is once in the table, however often it was sent and wherever batches end."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from nexus.lake.errors import BatchesLost
from nexus.lake.fence import Fence
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.pipeline.narrow import unreadable
from nexus.pipeline.sink.delta_sink import DeltaSink
from nexus.pipeline.sink.port import Batch, Stored
from nexus.pipeline.validate import validate
from support.narrow_rows import narrow_frame, narrow_rows
from support.readings import NOON_US
from support.spark import spark_session

DAY_US = 86_400_000_000
Row = dict[str, object]


@pytest.fixture
def store(tmp_path: Path) -> StoreUrl:
    return parse_store_url(f"delta://{tmp_path}/lake")


def sink_of(store: StoreUrl, epoch: int = 1) -> DeltaSink:
    return DeltaSink(spark_session(), store, Fence(epoch, "test"))


def store_rows(sink: DeltaSink, number: int, rows: list[Row], app: str = "test") -> Stored:
    return sink.store(Batch(validate(narrow_frame(rows)), app, number, "topic"))


def reading(gpu: int, second: int, value: float = 1.0, **more: object) -> Row:
    return {
        "uuid": f"GPU-{gpu}",
        "timestamp": NOON_US + second * 1_000_000,
        "ingested": NOON_US + second * 1_000_000,
        "source_value": value,
        **more,
    }


def table_rows(store: StoreUrl, name: str = "readings") -> list[Row]:
    rows: list[Row] = DeltaTable(store.table_uri(name)).to_pyarrow_table().to_pylist()
    return rows


def stored_values(store: StoreUrl) -> dict[tuple[object, object], object]:
    rows = table_rows(store)
    found = {(row["uuid"], row["timestamp"]): row["source_value"] for row in rows}
    assert len(found) == len(rows), "a reading is there twice"
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_any_batches_in_any_order_give_each_reading_once(store: StoreUrl, seed: int) -> None:
    rng = random.Random(seed)
    distinct = [
        reading(gpu, second + day * 86_400, float(second), labels=f'{{"n":"{gpu}"}}')
        for gpu in range(3)
        for second in range(6)
        for day in (0, 1)
    ]
    sent = distinct + rng.choices(distinct, k=30)
    rng.shuffle(sent)
    sink, number, stored = sink_of(store), 0, 0
    while sent:
        batch = [sent.pop() for _ in range(min(len(sent), rng.randint(5, 30)))]
        said = store_rows(sink, number, batch)
        assert said.readings + said.duplicates == len(batch)
        stored += said.readings
        if rng.random() < 0.4:  # the driver dies, and Spark gives the same batch again
            sink = sink_of(store)
            assert store_rows(sink, number, batch).replayed
        number += 1
    assert stored == len(distinct)
    assert len(stored_values(store)) == len(distinct)


def test_of_copies_in_a_batch_the_first_taken_is_kept(store: StoreUrl) -> None:
    late, early = reading(1, 0, 10.0, ingested=NOON_US + 9), reading(1, 0, 20.0, ingested=NOON_US)
    said = store_rows(sink_of(store), 0, [late, early])
    assert (said.readings, said.duplicates) == (1, 1)
    assert list(stored_values(store).values()) == [20.0]


def test_what_is_stored_first_wins(store: StoreUrl) -> None:
    sink = sink_of(store)
    store_rows(sink, 0, [reading(1, 0, 10.0)])
    said = store_rows(sink, 1, [reading(1, 0, 20.0, ingested=0), reading(1, 1, 30.0)])
    assert (said.readings, said.late, said.duplicates) == (1, 1, 1)
    assert sorted(map(str, stored_values(store).values())) == ["10.0", "30.0"]


def test_a_late_reading_is_stored_and_a_refused_one_is_no_copy_of_it(store: StoreUrl) -> None:
    sink = sink_of(store)
    store_rows(sink, 0, [reading(1, 10)])
    refused = reading(1, 5, -400.0, ingested=NOON_US - 1)  # colder than can be, and taken first
    said = store_rows(sink, 1, [refused, reading(1, 5, 40.0)])
    assert (said.readings, said.late, said.quarantined) == (1, 1, 1)
    assert 40.0 in stored_values(store).values()


def test_what_is_refused_is_kept_with_its_reason_and_place(store: StoreUrl) -> None:
    bad = narrow_rows([reading(1, 0), reading(2, 0, -400.0)], partition=4)
    torn = pa.Table.from_batches([unreadable([7], [99], ["no JSON"], [b'{"x'])])
    frame: DataFrame = spark_session().createDataFrame(pa.concat_tables([bad, torn]))
    said = sink_of(store).store(Batch(validate(frame), "test", 0, "topic"))
    assert (said.readings, said.quarantined) == (1, 2)
    decode, judged = sorted(table_rows(store, "quarantine"), key=lambda row: str(row["stage"]))
    assert (decode["partition"], decode["offset"], decode["raw"]) == (7, 99, b'{"x')
    assert (judged["partition"], judged["offset"], judged["topic"]) == (4, 1, "topic")
    assert "outside of" in str(judged["reason"])
    raw = json.loads(bytes(judged["raw"]))  # type: ignore[call-overload]
    assert (raw["uuid"], raw["source_value"]) == ("GPU-2", "-400")


def test_files_are_sorted_by_gpu_and_time(store: StoreUrl) -> None:
    rows = [reading(gpu, second) for second in range(9) for gpu in (3, 1, 2)]
    store_rows(sink_of(store), 0, rows)
    for path in DeltaTable(store.table_uri("readings")).file_uris():
        query = f"SELECT uuid, timestamp FROM read_parquet('{path}')"
        found = duckdb.connect().execute(query).fetchall()
        assert found == sorted(found)


def test_another_query_with_the_same_numbers_is_not_taken_for_a_replay(store: StoreUrl) -> None:
    sink = sink_of(store)
    store_rows(sink, 0, [reading(1, 0)], app="one")
    assert store_rows(sink, 0, [reading(1, 1)], app="two").readings == 1
    assert store_rows(sink_of(store), 0, [reading(1, 1)], app="two").replayed


def test_a_store_that_lacks_earlier_batches_is_refused(store: StoreUrl, tmp_path: Path) -> None:
    sink = sink_of(store)
    for number in range(2):
        store_rows(sink, number, [reading(0, number)])
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(BatchesLost, match="batches 0 to 1 were stored here and are gone"):
        store_rows(sink_of(store), 2, [reading(0, 2)])
    assert not table_rows(store)


def test_a_batch_whose_commit_never_came_is_done_again_without_a_trace(
    store: StoreUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = reading(1, 0, -400.0), reading(1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "append", _only_quarantine(LakeTable.append))
        with pytest.raises(KeyboardInterrupt):
            store_rows(sink_of(store), 0, [bad, good])
    assert len(table_rows(store, "quarantine")) == 1
    assert table_rows(store) == []
    assert store_rows(sink_of(store), 0, [bad, good]).readings == 1
    assert len(table_rows(store, "quarantine")) == 1


def _only_quarantine(append: Callable[..., int]) -> Callable[..., int]:
    """The driver dies between its two commits."""

    def dying(table: LakeTable, *rest: object) -> int:
        if table.spec.name == "readings":
            raise KeyboardInterrupt
        return append(table, *rest)

    return dying
