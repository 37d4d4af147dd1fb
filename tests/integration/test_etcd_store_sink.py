"""Batches of Spark in a store in etcd: each once, however often it is given."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from nexus.lake.errors import BatchesLost, StoreOut
from nexus.pipeline.narrow import unreadable
from nexus.pipeline.sink.etcd_sink import EtcdSink
from nexus.pipeline.sink.etcd_writer import Taking
from nexus.pipeline.sink.port import Batch, Stored
from nexus.pipeline.source import register
from nexus.pipeline.validate import validate
from nexus.queue.etcd.layout import Slot
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.marks import Mark
from nexus.store.etcd.url import parse_etcd_store_url
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support.derived import expected_gpus, expected_latest, same_rows
from support.etcd import EtcdMember
from support.etcd_tasks import view_of
from support.hand_queue import HandQueue
from support.narrow_rows import narrow_frame, narrow_rows
from support.published import arrow_messages
from support.readings import NOON_US, fleet, readings
from support.spark import spark_session

Row = dict[str, object]


@pytest.fixture
def lock(etcd: EtcdMember, name: str) -> Iterator[EtcdWriterLock]:
    lock = EtcdWriterLock(parse_etcd_store_url(f"etcd://{etcd.endpoint}/{name}"), "test")
    lock.acquire()
    yield lock
    lock.release()


def store_rows(lock: EtcdWriterLock, number: int, rows: list[Row]) -> Stored:
    sink = EtcdSink(spark_session(), lock)
    return sink.store(Batch(validate(narrow_frame(rows)), "test", number, "topic"))


def reading(gpu: int, second: int, value: float = 1.0, **more: object) -> Row:
    moment = NOON_US + second * 1_000_000
    row = {"uuid": f"GPU-{gpu}", "timestamp": moment, "ingested": moment, "source_value": value}
    return {**row, "hostname": f"h{gpu}", **more}


def forget(lock: EtcdWriterLock, number: int) -> None:
    """As if the driver had died when all of a batch was put, and nothing noted."""
    key = lock.store.layout.meta("batches", "test")
    found = lock.client.get(key)
    assert found is not None
    mark = Mark.of(found.value)
    assert mark.number == mark.begun == number
    said = {**json.loads(found.value), "number": number - 1}
    lock.client.put(key, json.dumps(said).encode())


def test_any_batches_in_any_order_give_each_reading_once(lock: EtcdWriterLock) -> None:
    rng = random.Random(1)
    distinct = [reading(gpu, second, float(second)) for gpu in range(3) for second in range(12)]
    distinct += [reading(1, 3, 9.0, pod=f"p{n}") for n in range(3)]  # many in one moment
    sent = distinct + rng.choices(distinct, k=20)
    rng.shuffle(sent)
    stored = 0
    for number, start in enumerate(range(0, len(sent), 20)):
        batch = sent[start : start + 20]
        said = store_rows(lock, number, batch)
        assert said.readings + said.duplicates == len(batch)
        stored += said.readings
        assert store_rows(lock, number, batch).replayed
    assert stored == len(distinct)
    view, whole = view_of(lock), plain(normalise(readings(*distinct)))
    assert sorted(view.readings.to_pylist(), key=repr) == sorted(whole.to_pylist(), key=repr)
    same_rows(view.known.gpus, expected_gpus(whole), "gpus")
    same_rows(view.latest, expected_latest(whole), "latest")


def test_a_batch_that_was_put_and_not_noted_changes_nothing_when_it_comes_again(
    lock: EtcdWriterLock,
) -> None:
    bad = narrow_rows([reading(1, 0), reading(2, 0, -400.0)], partition=4)
    torn = pa.Table.from_batches([unreadable([7], [99], ["no JSON"], [b'{"x'])])
    frame = validate(spark_session().createDataFrame(pa.concat_tables([bad, torn])))
    sink, batch = EtcdSink(spark_session(), lock), Batch(frame, "test", 0, "topic")
    first = sink.store(batch)
    assert (first.readings, first.quarantined) == (1, 2)
    forget(lock, 0)
    again = sink.store(batch)
    assert (again.readings, again.duplicates, again.replayed) == (0, 1, False)
    view = view_of(lock)
    assert view.readings.num_rows == 1
    found = {
        (r["stage"], r["partition"], r["offset"], r["topic"]) for r in view.refused.to_pylist()
    }
    assert view.refused.num_rows == 2
    assert found == {("validate", 4, 1, "topic"), ("decode", 7, 99, "topic")}


def test_a_batch_that_must_not_be_committed_any_more_is_not_noted(lock: EtcdWriterLock) -> None:
    def refuse() -> None:
        raise StoreOut("another leads by now")

    sink, rows = EtcdSink(spark_session(), lock), validate(narrow_frame([reading(1, 0)]))
    with pytest.raises(StoreOut, match="another leads by now"):
        sink.store(Batch(rows, "test", 0, "topic", refuse))
    assert sink.store(Batch(rows, "test", 0, "topic")).duplicates == 1
    assert sink.store(Batch(rows, "test", 0, "topic")).replayed


def test_a_store_that_was_emptied_is_noticed(lock: EtcdWriterLock) -> None:
    store_rows(lock, 0, [reading(1, 0)])
    with pytest.raises(BatchesLost, match="batches 1 to 4 were stored here and are gone"):
        store_rows(lock, 5, [reading(1, 1)])


def test_a_writer_that_was_replaced_stores_nothing(lock: EtcdWriterLock) -> None:
    lock.client.delete(lock.fence.key)
    with pytest.raises(StoreOut, match="the right to write was lost"):
        store_rows(lock, 0, [reading(1, 0)])
    assert view_of(lock).readings.num_rows == 0


def test_messages_of_the_same_etcd_go_as_their_readings_come(
    etcd: EtcdMember, lock: EtcdWriterLock, name: str
) -> None:
    table, spark = fleet(1_700, gpus=20), spark_session()
    register(spark)
    with HandQueue(etcd, f"/{name}-queue") as queue:
        queue.put(Slot("east", 0), arrow_messages(table[:900], readings=300))
        queue.put(Slot("east", 1), arrow_messages(table[900:], readings=300))
        source = spark.read.format("nexus").option("queue", queue.url)
        rows = source.options(form="narrow", acks="true", tasks="2").load()
        url = parse_queue_url(queue.url)
        assert isinstance(url, EtcdUrl)
        sink = EtcdSink(spark, lock, lambda: Taking(url, None))
        assert sink.store(Batch(validate(rows), "test", 0, "topic")).readings == 1_700
        assert queue.waiting() == []
        totals = queue.totals()
        assert totals.taken == totals.published
    view, whole = view_of(lock), plain(normalise(table))
    assert view.readings.num_rows == 1_700
    same_rows(view.known.gpus, expected_gpus(whole), "gpus")
    same_rows(view.latest, expected_latest(whole), "latest")
