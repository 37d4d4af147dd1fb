"""Tasks that write to a store in etcd: each reading once, whatever dies, documents with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from nexus.etcd import Client, Fence, KeyValue, connect
from nexus.lake.errors import StoreOut
from nexus.pipeline.narrow import ACK, READING
from nexus.pipeline.sink import etcd_documents
from nexus.pipeline.sink.etcd_acks import Ack, Taker
from nexus.pipeline.sink.etcd_documents import keep_documents, news_of
from nexus.queue.etcd.counts import Tally
from nexus.queue.etcd.layout import Slot
from nexus.store.etcd.layout import StoreLayout
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.url import parse_etcd_store_url
from nexus.store.etcd.writing import Item
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support.derived import HOUR, expected_gpus, expected_latest, same_rows
from support.etcd import CuttingProxy, EtcdMember, eventually
from support.etcd_tasks import Died, dying, job_of, messages_of, view_of, wrote
from support.hand_queue import HandQueue
from support.published import Sent, arrow_messages, json_messages
from support.readings import NOON_US, fleet, readings
from support.sender import with_columns

FLEET = fleet(510, gpus=10)
UUID = FLEET["uuid"][0].as_py()
A, B = Slot("east", 0), Slot("west", 3)
TORN: Sent = (b'{"timestamp":"2025', [("content-type", "application/json")])


@pytest.fixture
def queue(etcd: EtcdMember, name: str) -> Iterator[HandQueue]:
    with HandQueue(etcd, f"/{name}/queue") as made:
        yield made


@pytest.fixture
def lock(etcd: EtcdMember, name: str) -> Iterator[EtcdWriterLock]:
    lock = EtcdWriterLock(parse_etcd_store_url(f"etcd://{etcd.endpoint}/{name}/store"), "test")
    lock.acquire()
    yield lock
    lock.release()


def rows_of(*tables: pa.Table) -> list[dict[str, Any]]:
    return sorted((row for table in tables for row in plain(table).to_pylist()), key=repr)


def test_messages_are_taken_out_as_their_readings_are_stored(
    queue: HandQueue, lock: EtcdWriterLock
) -> None:
    queue.put(A, json_messages(FLEET[:150]))
    queue.put(B, arrow_messages(FLEET[150:], readings=100))
    queue.put(B, [TORN, TORN], packed=True)
    job = job_of(lock, queue.url)
    told = [wrote(job, rows) for rows in messages_of(queue.url, tasks=2)]
    assert [sum(each) for each in zip(*told, strict=True)] == [510, 0, 2]
    assert queue.waiting() == []
    view = view_of(lock)
    assert rows_of(view.readings) == rows_of(normalise(FLEET))
    assert view.refused["raw"].to_pylist() == [TORN[0]] * 2
    totals = queue.totals()
    assert totals.taken == totals.published
    assert totals.expired == 0


def sent(queue: HandQueue, table: pa.Table) -> pa.Table:
    """Canonical readings of a table that went through the queue, as one task reads them."""
    queue.put(A, arrow_messages(table))
    [rows] = messages_of(queue.url)
    return rows


def test_documents_follow_the_readings(queue: HandQueue, lock: EtcdWriterLock) -> None:
    moved = with_columns(FLEET[:170], hostname=["elsewhere"] * 170, timestamp=NOON_US + HOUR // 2)
    job = job_of(lock, queue.url)
    for table in (FLEET[170:], FLEET[:170], moved):
        wrote(job, sent(queue, table))
    view = view_of(lock)
    whole = plain(normalise(pa.concat_tables([FLEET, moved])))
    same_rows(view.known.gpus, expected_gpus(whole), "gpus")
    newest = {row["metric"]: row for row in expected_latest(whole) if row["uuid"] == UUID}
    found = [row for row in view.latest.to_pylist() if row["uuid"] == UUID]
    assert {row["metric"]: row for row in found if row["hostname"] == "elsewhere"} == newest
    paths = view.known.paths[UUID]
    assert ["elsewhere" in path for path in paths] == [True, False], "the newest is first"


def test_last_readings_leave_out_series_that_ended_long_before(
    queue: HandQueue, lock: EtcdWriterLock
) -> None:
    rows: list[dict[str, object]] = [
        {"uuid": "GPU-1", "hostname": "h", "pod": "old"},
        {"uuid": "GPU-1", "hostname": "h", "pod": "new", "timestamp": NOON_US + HOUR + 1},
        {"uuid": "GPU-2", "hostname": "h", "pod": "old"},
    ]
    job = job_of(lock, queue.url)
    for row in rows:
        wrote(job, sent(queue, readings(row)))
    found = [(row["uuid"], row["pod"]) for row in view_of(lock).latest.to_pylist()]
    assert sorted(found) == [("GPU-1", "new"), ("GPU-2", "old")]


def test_a_gpu_of_ever_so_many_series_has_a_document_of_its_newest(
    queue: HandQueue, lock: EtcdWriterLock
) -> None:
    rows = [{"uuid": "GPU-1", "pod": f"p{n}", "timestamp": NOON_US + n} for n in range(2_100)]
    assert wrote(job_of(lock, queue.url), sent(queue, readings(*rows))).readings == 2_100
    found = view_of(lock).latest["pod"].to_pylist()
    assert sorted(found) == sorted(f"p{n}" for n in range(100, 2_100))


def test_copies_are_stored_once_and_the_first_wins(queue: HandQueue, lock: EtcdWriterLock) -> None:
    copies: list[dict[str, object]]
    copies = [{"uuid": "GPU-1", "source_value": v, "ingested": NOON_US + v} for v in (9, 2)]
    job = job_of(lock, queue.url)
    assert wrote(job, sent(queue, readings(*copies)))[:2] == (1, 1)
    again = readings({"uuid": "GPU-1", "source_value": 7.0, "ingested": 0})
    assert wrote(job, sent(queue, again))[:2] == (0, 1)
    view = view_of(lock)
    assert view.readings["source_value"].to_pylist() == [2.0]
    assert view.latest["source_value"].to_pylist() == [2.0]


def test_a_message_that_came_meanwhile_stays(queue: HandQueue, lock: EtcdWriterLock) -> None:
    queue.put(A, json_messages(FLEET[:50]), at_ns=10)
    queue.put(A, json_messages(FLEET[50:100]), at_ns=30)
    [rows] = messages_of(queue.url)
    [late] = queue.put(A, json_messages(FLEET[100:101]), at_ns=20)
    assert wrote(job_of(lock, queue.url), rows).readings == 100
    waiting = queue.waiting()
    assert [item.key for item in waiting] == [late.key]
    totals = queue.totals()
    assert (totals.taken.keys, totals.waiting, totals.expired) == (100, 1, 0)


def test_messages_that_are_not_ours_are_not_deleted_with_those_between_which_they_lie(
    queue: HandQueue, lock: EtcdWriterLock
) -> None:
    [old] = queue.put(A, json_messages(FLEET[:1]), at_ns=20)
    queue.put(A, json_messages(FLEET[1:10]), at_ns=10)
    queue.put(A, json_messages(FLEET[10:20]), at_ns=30)
    [rows] = messages_of(queue.url)
    kinds, offsets = rows["kind"].to_pylist(), rows["offset"].to_pylist()
    kept = [k != READING or o > old.mod_revision for k, o in zip(kinds, offsets, strict=True)]
    said = json.loads(rows.filter(pa.array([k == ACK for k in kinds]))["text"][0].as_py())
    said["keys"].remove(old.key.decode())  # as for a collector that started later
    texts = [
        json.dumps(said).encode() if k == ACK else t
        for k, t in zip(kinds, rows["text"].to_pylist(), strict=True)
    ]
    rows = rows.set_column(
        rows.schema.get_field_index("text"), "text", pa.array(texts, pa.binary())
    )
    assert wrote(job_of(lock, queue.url), rows.filter(pa.array(kept))).readings == 19
    waiting = queue.waiting()
    assert [item.key for item in waiting] == [old.key]


def test_tasks_that_meet_at_the_same_gpus_lose_nothing(
    queue: HandQueue, lock: EtcdWriterLock
) -> None:
    queue.put(A, arrow_messages(FLEET[::2], readings=60))
    queue.put(B, arrow_messages(FLEET[1::2], readings=60))
    job = job_of(lock, queue.url)
    tasks = messages_of(queue.url, tasks=4)
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda rows: wrote(job, rows), tasks))
    assert sum(each.readings for each in told) == 510
    view = view_of(lock)
    same_rows(view.known.gpus, expected_gpus(plain(normalise(FLEET))), "gpus")
    same_rows(view.latest, expected_latest(plain(normalise(FLEET))), "latest")


@pytest.mark.parametrize("lost", ["store", "queue"])
def test_who_was_replaced_neither_stores_nor_takes(
    queue: HandQueue, lock: EtcdWriterLock, lost: str
) -> None:
    queue.put(A, json_messages(FLEET[:20]))
    lead = queue.layout.meta("collectors", "all")
    token = queue.etcd.put(lead, b"").revision
    job = job_of(lock, queue.url, Fence(lead, token))
    [rows] = messages_of(queue.url)
    gone = lead if lost == "queue" else lock.fence.key
    queue.etcd.delete(gone)
    with pytest.raises(StoreOut, match="the right to write was lost"):
        wrote(job, rows)
    assert len(queue.waiting()) == 20
    assert queue.totals().taken.keys == 0


def test_a_step_whose_answer_is_lost_happens_once_and_is_counted_once(
    etcd: EtcdMember, queue: HandQueue, lock: EtcdWriterLock
) -> None:
    items = [queue.put(A, json_messages(FLEET[n : n + 1]))[0] for n in range(6)]
    data = [Item(lock.store.layout.meta("x", f"{n:04}"), b"") for n in range(100)]
    tally = Tally(queue.layout.meta("taken", "test"), "test")

    def ack_for(some: list[KeyValue]) -> Ack:
        low, high = some[0].mod_revision, some[-1].mod_revision
        return Ack(tuple(item.key for item in some), high, low, high)

    async def story(direct: Client) -> None:
        proxy = CuttingProxy(etcd.port)
        config = replace(etcd.config(), endpoints=(proxy.endpoint,))
        async with proxy, connect(config) as client:
            taker = Taker(client, lock.fence, None, tally)
            await client.limits()
            proxy.lose_answers = True
            taking = asyncio.create_task(taker.take(data, ack_for(items[:4])))

            async def gone() -> bool:
                return await direct.get(items[0].key) is None

            await eventually(gone, what="the step to happen")
            proxy.lose_answers = False
            await proxy.cut()
            told = await taking
            assert (told.new + told.there, told.done) == (100, True)
            assert (await taker.take([], ack_for(items[4:]))).done

    etcd.run(story)
    assert queue.waiting() == []
    totals = queue.totals()
    assert totals.taken == totals.published == (6, 6)
    assert tally.count == (6, 6)


def test_documents_that_another_wrote_meanwhile_are_merged_anew(
    queue: HandQueue, lock: EtcdWriterLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (normalise(FLEET[part]) for part in (slice(0, 255), slice(255, 510)))
    real, calls = etcd_documents._read, []

    async def read(client: Client, layout: StoreLayout, news: Any) -> Any:
        found = await real(client, layout, news)
        calls.append(len(found))
        if len(calls) == 1:  # between its look and its write
            await etcd_documents.keep_documents(client, lock.fence, layout, news_of(second))
        return found

    monkeypatch.setattr(etcd_documents, "_read", read)
    layout = lock.store.layout
    lock.client.run(lambda c: keep_documents(c, lock.fence, layout, news_of(first)))
    assert len(calls) == 3
    view = view_of(lock)
    same_rows(view.known.gpus, expected_gpus(plain(normalise(FLEET))), "gpus")
    same_rows(view.latest, expected_latest(plain(normalise(FLEET))), "latest")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_a_task_dies_its_replay_stores_each_reading_once(
    queue: HandQueue, lock: EtcdWriterLock, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    queue.put(A, json_messages(FLEET[:200]))
    queue.put(A, [TORN])
    queue.put(A, arrow_messages(FLEET[200:], readings=310))
    job = job_of(lock, queue.url)
    deaths = 0
    while tasks := messages_of(queue.url):
        with dying(monkeypatch, deaths + 1, after=after):
            try:
                wrote(job, tasks[0])
            except Died:
                deaths += 1
    assert deaths >= 5
    view = view_of(lock)
    assert rows_of(view.readings) == rows_of(normalise(FLEET))
    assert view.refused["raw"].to_pylist() == [TORN[0]]
    same_rows(view.known.gpus, expected_gpus(plain(normalise(FLEET))), "gpus")
    same_rows(view.latest, expected_latest(plain(normalise(FLEET))), "latest")
    totals = queue.totals()
    assert totals.taken == totals.published
