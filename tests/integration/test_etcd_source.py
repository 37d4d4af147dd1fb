"""The data source "nexus" on a queue in a real etcd: planned and read here, without Spark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from nexus.etcd import Keys
from nexus.pipeline.narrow import ACK, CONTEXT, READING, UNREADABLE
from nexus.pipeline.source.datasource import BatchReader, StreamReader
from nexus.pipeline.source.forms import SCHEMAS
from nexus.pipeline.source.options import BadOption, parse_options
from nexus.pipeline.source.start import BadStart
from nexus.queue.errors import QueueAway
from nexus.queue.etcd.identity import QueueAnew
from nexus.queue.etcd.layout import Slot
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import READING_SCHEMA, plain
from support.etcd import EtcdMember
from support.hand_queue import HandQueue
from support.published import arrow_messages, json_messages
from support.readings import fleet

FLEET = fleet(400, gpus=8)
A, B = Slot("east", 0), Slot("west", 3)


@pytest.fixture
def queue(etcd: EtcdMember, name: str) -> Iterator[HandQueue]:
    with HandQueue(etcd, f"/{name}") as made:
        yield made


@pytest.fixture
def stream(queue: HandQueue) -> Iterator[Any]:
    made: list[StreamReader] = []

    def make(**more: object) -> StreamReader:
        made.append(StreamReader(parse_options(said(queue, **more))))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def said(queue: HandQueue, **more: object) -> dict[str, str]:
    return {"queue": queue.url, "tasks": "3", **{name: str(word) for name, word in more.items()}}


def read(reader: StreamReader | BatchReader, tasks: Any) -> pa.Table:
    batches = [batch for task in tasks for batch in reader.read(task)]
    schema = SCHEMAS[reader.options.form]
    assert all(batch.schema.equals(schema) for batch in batches)
    return pa.Table.from_batches(batches, schema)


def rows(reader: StreamReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> pa.Table:
    # Through JSON, as they come out of a checkpoint.
    return read(reader, reader.partitions(*(json.loads(json.dumps(o)) for o in (start, end))))


def batches(reader: StreamReader, limit: ReadLimit) -> Iterator[tuple[Any, Any]]:
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, limit)) != start:
        yield start, end
        start = end


def readings(table: pa.Table) -> list[dict[str, Any]]:
    good = table.filter(pa.compute.is_null(table.column("reason")))
    found: list[dict[str, Any]] = good.select(READING_SCHEMA.names).to_pylist()
    return sorted(found, key=repr)


def expected(*tables: pa.Table) -> list[dict[str, Any]]:
    return sorted((r for t in tables for r in plain(normalise(t)).to_pylist()), key=repr)


def test_both_forms_are_read_from_all_slots(queue: HandQueue) -> None:
    queue.put(A, json_messages(FLEET[:100]))
    queue.put(A, arrow_messages(FLEET[100:250], readings=50))
    queue.put(B, json_messages(FLEET[250:300]), packed=True)
    queue.put(B, arrow_messages(FLEET[300:400]))
    reader = BatchReader(parse_options(said(queue)))
    found = read(reader, reader.partitions())
    assert readings(found) == expected(FLEET)
    assert set(found.column("partition").to_pylist()) == {0, 3}
    revisions = {item.mod_revision for item in queue.waiting()}
    assert set(found.column("offset").to_pylist()) == revisions, "an offset is a revision"


def test_batches_cut_a_slot_anywhere_and_together_hold_everything_once(
    queue: HandQueue, stream: Any
) -> None:
    queue.put(A, json_messages(FLEET[:230]))
    queue.put(B, json_messages(FLEET[230:]))
    reader = stream()
    parts = [rows(reader, *span) for span in batches(reader, ReadMaxRows(90))]
    assert len(parts) >= 4
    assert all(part.num_rows <= 91 for part in parts)
    assert readings(pa.concat_tables(parts)) == expected(FLEET)


def test_a_batch_is_the_same_on_replay_whatever_came_late_or_went(
    queue: HandQueue, stream: Any
) -> None:
    keys = queue.put(A, json_messages(FLEET[:200]))
    first = stream()
    spans = []
    for number, span in enumerate(batches(first, ReadMaxRows(60))):
        spans.append(span)
        if number == 1:  # in mid-sweep, before and behind where it stands
            queue.put(A, json_messages(FLEET[200:230]), at_ns=1)
            queue.put(A, json_messages(FLEET[230:260]))
    taken = [rows(first, *span) for span in spans]
    assert readings(pa.concat_tables(taken)) == expected(FLEET[:260])
    second = stream()
    assert [readings(rows(second, *span)) for span in spans] == [readings(t) for t in taken]
    for item in keys[:10]:
        queue.etcd.delete(item.key)
    queue.put(A, json_messages(FLEET[260:]), at_ns=2)
    again = [rows(stream(), *span) for span in spans]
    assert readings(pa.concat_tables(again)) == expected(FLEET[10:260]), "less what is gone"


def test_what_comes_during_a_sweep_is_taken_by_the_next(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:50]))
    reader = stream()
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(20))
    queue.put(A, json_messages(FLEET[50:60]))
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert readings(rows(reader, middle, end)) == expected(FLEET[20:50])
    last = reader.latestOffset(end, ReadAllAvailable())
    assert readings(rows(reader, end, last)) == expected(FLEET[50:60])
    assert reader.latestOffset(last, ReadAllAvailable()) == last


def test_a_sweep_whose_rest_expired_ends(queue: HandQueue, stream: Any) -> None:
    keys = queue.put(A, json_messages(FLEET[:50]))
    reader = stream()
    middle = reader.latestOffset(reader.initialOffset(), ReadMaxRows(20))
    queue.etcd.delete(Keys(keys[0].key, keys[-1].key + b"\0"))
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert end != middle
    assert rows(reader, middle, end).num_rows == 0
    queue.put(A, json_messages(FLEET[50:60]))
    last = reader.latestOffset(end, ReadAllAvailable())
    assert readings(rows(reader, end, last)) == expected(FLEET[50:60])


def test_only_the_partitions_asked_for_are_read(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:20]))
    queue.put(B, json_messages(FLEET[20:40]))
    reader = stream(partitions="1-5")
    ((start, end),) = batches(reader, ReadMaxRows(1000))
    assert readings(rows(reader, start, end)) == expected(FLEET[20:40])


def test_a_slot_that_comes_later_is_read_from_its_first_message(
    queue: HandQueue, stream: Any
) -> None:
    reader = stream()
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(1000)) == start, "an empty queue is no error"
    queue.put(B, json_messages(FLEET[:20]))
    end = reader.latestOffset(start, ReadMaxRows(1000))
    assert readings(rows(reader, start, end)) == expected(FLEET[:20])


def test_latest_is_resolved_once_and_kept(queue: HandQueue, stream: Any, tmp_path: Path) -> None:
    queue.put(A, json_messages(FLEET[:20]))
    place = tmp_path / "start.json"
    start = stream(start="latest", start_file=place).initialOffset()
    queue.put(A, json_messages(FLEET[20:30]))
    queue.put(B, json_messages(FLEET[30:40]))
    reader = stream(start="latest", start_file=place)
    assert reader.initialOffset() == start
    ((_, end),) = batches(reader, ReadAllAvailable())
    assert readings(rows(reader, start, end)) == expected(FLEET[20:40])


def test_a_start_by_time_goes_by_the_keys(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:10]), at_ns=1_700_000_000_000_000_000)
    queue.put(A, json_messages(FLEET[10:20]), at_ns=1_700_000_100_000_000_000)
    reader = stream(start="1700000050000")
    ((start, end),) = batches(reader, ReadAllAvailable())
    assert readings(rows(reader, start, end)) == expected(FLEET[10:20])
    with pytest.raises(BadStart, match="no offsets"):
        stream(start='{"0": 3}').initialOffset()


def test_available_now_goes_no_further_than_what_was_there(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:30]))
    reader = stream()
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    queue.put(A, json_messages(FLEET[30:60]))
    end = reader.latestOffset(start, ReadMaxRows(1000))
    assert readings(rows(reader, start, end)) == expected(FLEET[:30])
    assert reader.latestOffset(end, ReadMaxRows(1000)) == end


def test_a_batch_keeps_to_its_bytes(queue: HandQueue, stream: Any) -> None:
    for number in range(8):
        big = [
            (b" " * 300_000 + (value or b""), headers)
            for value, headers in json_messages(FLEET[:1])
        ]
        queue.put(Slot("east", number % 2), big)
    reader = stream(max_bytes="1MB")
    sizes = [rows(reader, *span).num_rows for span in batches(reader, ReadMaxRows(1000))]
    assert sum(sizes) == 8
    assert max(sizes) <= 4


def test_a_value_in_no_known_form_is_a_row_that_says_why(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:5]))
    queue.put_raw(queue.layout.message(A, 5, "h", "g", 1), b"\0\0\0\x01torn")
    queue.put_raw(queue.layout.message(A, 6, "h", "g", 2), b"{no json")
    reader = stream()
    ((start, end),) = batches(reader, ReadAllAvailable())
    found = rows(reader, start, end)
    assert readings(found) == expected(FLEET[:5])
    bad = found.filter(pa.compute.is_valid(found.column("reason"))).to_pylist()
    assert {row["raw"] for row in bad} == {b"\0\0\0\x01torn", b"{no json"}
    assert any("frame" in row["reason"] or "torn" in row["reason"] for row in bad)


def test_the_doorbell_ends_the_wait_for_a_message(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:1]))
    reader = stream(wait="20s")
    start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    later = threading.Timer(1.0, queue.put, (A, json_messages(FLEET[1:2])))
    later.start()
    begun = time.monotonic()
    empty = 0
    while (end := reader.latestOffset(start, ReadMaxRows(100))) == start:
        empty += 1
    assert time.monotonic() - begun < 18
    assert empty <= 1, "it waits for the bell; at first it looks again once that is watched"
    assert readings(rows(reader, start, end)) == expected(FLEET[1:2])


def test_a_quiet_queue_ends_the_wait_with_nothing(queue: HandQueue, stream: Any) -> None:
    reader = stream(wait="0.2s")
    start = reader.initialOffset()
    began = time.monotonic()
    assert [reader.latestOffset(start, ReadMaxRows(100)) for _ in range(4)] == [start] * 4
    assert time.monotonic() - began > 0.4


def test_what_rings_no_bell_is_found_by_polling(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:1]))
    reader = stream(wait="0.2s", poll_timeout="1s")
    start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(100))
    for _ in range(3):  # until the bell is watched, and nothing more is expected
        assert reader.latestOffset(start, ReadMaxRows(100)) == start
    ((value, _),) = json_messages(FLEET[1:2])
    queue.put_raw(queue.layout.message(A, 7, "h", "g", 0), value or b"")
    deadline = time.monotonic() + 30
    while (end := reader.latestOffset(start, ReadMaxRows(100))) == start:
        assert time.monotonic() < deadline
    assert readings(rows(reader, start, end)) == expected(FLEET[1:2])


def test_with_acks_a_row_after_each_chunk_names_its_keys(queue: HandQueue, stream: Any) -> None:
    many = pa.concat_tables([FLEET] * 6)
    for at in range(0, 2400, 400):
        queue.put(A, arrow_messages(many[at : at + 400]))
    queue.put(B, json_messages(FLEET[:30]))
    queue.put_raw(queue.layout.message(B, 5, "h", "g", 1), b"\0torn")
    reader = stream(form="narrow", acks="true")
    ((start, end),) = batches(reader, ReadAllAvailable())
    told: list[bytes] = []
    since = 0
    for row in rows(reader, start, end).to_pylist():
        if row["kind"] == ACK:
            said = json.loads(row["text"])
            told += [key.encode() for key in said["keys"]]
            revisions = {k.key: k.mod_revision for k in queue.waiting()}
            assert all(revisions[key.encode()] <= said["revision"] for key in said["keys"])
            assert said["slot"] in (str(A), str(B))
            assert 0 < since <= 1000
            since = 0
        else:
            assert row["kind"] in (READING, CONTEXT, UNREADABLE)
            since += row["kind"] in (READING, UNREADABLE)
    assert since == 0, "the last row acknowledges"
    assert sorted(told) == [item.key for item in queue.waiting()], "each once"
    with pytest.raises(BadOption, match="narrow"):
        stream(acks="true")


def test_a_place_of_another_queue_is_refused(queue: HandQueue, stream: Any) -> None:
    queue.put(A, json_messages(FLEET[:10]))
    reader = stream()
    ((start, end),) = batches(reader, ReadAllAvailable())
    ahead = {**end, str(A): [1 << 40]}
    with pytest.raises(QueueAnew, match="set back"):
        stream().latestOffset(ahead, ReadMaxRows(10))
    queue.etcd.put(queue.layout.meta("id"), b"made anew")
    with pytest.raises(QueueAnew, match="another queue"):
        stream().latestOffset(end, ReadMaxRows(10))
    with pytest.raises(QueueAnew, match="another queue"):
        stream().partitions(start, end)


def test_an_etcd_that_does_not_answer_is_away() -> None:
    reader = StreamReader(parse_options({"queue": "etcd://127.0.0.1:1/q", "poll_timeout": "1s"}))
    with pytest.raises(QueueAway, match=r"queue etcd://127\.0\.0\.1:1/q"):
        reader.latestOffset({"*": 0, "queue": ""}, ReadMaxRows(1))
    reader.stop()
