"""What goes into a store in etcd, against a real one: once, and only as its one writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nexus.etcd import Client, Delete, Fence, Get, Keys, Limits, present
from nexus.etcd.errors import Fenced as EtcdFenced
from nexus.lake.errors import StoreBusy, StoreOut
from nexus.pipeline.collector.etcd_store import Upkeep
from nexus.store.etcd.documents import document
from nexus.store.etcd.layout import StoreLayout, data_keys
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.retention import Note, noted, sweep
from nexus.store.etcd.rows import reading_keys, reading_values
from nexus.store.etcd.url import EtcdStoreUrl, parse_etcd_store_url
from nexus.store.etcd.writing import Beside, Item, Told, portions, put_many, put_new, runs
from nexus.telemetry.normalise import normalise
from support.etcd import EtcdMember
from support.readings import NOON_US, readings
from support.waiting import wait_until

KEEP_US = 3_600_000_000


@pytest.fixture
def store(etcd: EtcdMember, name: str) -> EtcdStoreUrl:
    """A store of the test's own."""
    return parse_etcd_store_url(f"etcd://{etcd.endpoint}/{name}")


@contextmanager
def held(store: EtcdStoreUrl, owner: str) -> Iterator[EtcdWriterLock]:
    lock = EtcdWriterLock(store, owner)
    try:
        lock.acquire()
        yield lock
    finally:
        lock.release()


@pytest.fixture
def lock(store: EtcdStoreUrl) -> Iterator[EtcdWriterLock]:
    with held(store, "test") as lock:
        yield lock


def items_of(
    layout: StoreLayout, gpus: int = 3, moments: int = 100, value: float = 1.0
) -> list[Item]:
    rows = [
        {"uuid": f"GPU-{gpu}", "timestamp": NOON_US + n, "source_value": value}
        for gpu in range(gpus)
        for n in range(moments)
    ]
    table = normalise(readings(*rows))
    keys, values = reading_keys(layout, table), reading_values(table)
    return sorted(map(Item, keys.to_pylist(), values.to_pylist()))


def stored(lock: EtcdWriterLock) -> dict[bytes, bytes]:
    keys = lock.store.layout.clusters
    return {item.key: item.value for page in lock.client.scan(keys) for item in page.items}


def put(lock: EtcdWriterLock, items: list[Item]) -> Told:
    return lock.client.run(lambda client: put_many(client, lock.fence, items))


def test_new_readings_are_put_and_what_is_there_stays(lock: EtcdWriterLock) -> None:
    first = items_of(lock.store.layout)
    assert put(lock, first)[:2] == (300, 0)
    again = items_of(lock.store.layout, gpus=4, value=2.0)
    assert put(lock, again)[:2] == (100, 300)
    assert stored(lock) == dict(again) | dict(first)


def test_readings_between_others_find_their_place(lock: EtcdWriterLock) -> None:
    items = items_of(lock.store.layout)
    put(lock, items[::2])
    assert put(lock, items[1::2])[:2] == (150, 0)
    assert put(lock, items)[:2] == (0, 300)
    assert stored(lock) == dict(items)


def test_who_was_replaced_puts_nothing(lock: EtcdWriterLock) -> None:
    old = Fence(lock.fence.key, lock.fence.token - 1)
    items = items_of(lock.store.layout)
    with pytest.raises(EtcdFenced):
        lock.client.run(lambda client: put_many(client, old, items))
    assert stored(lock) == {}


def test_what_goes_beside_happens_in_the_same_step_or_nothing_does(lock: EtcdWriterLock) -> None:
    message = lock.store.layout.meta("message")
    beside = Beside((present(message),), (Delete(Keys(message)),))
    items = items_of(lock.store.layout, moments=10)

    async def story(client: Client) -> None:
        assert not (await put_new(client, lock.fence, items, beside)).done
        for some, new, there in ((items[:5], 5, 0), (items, 25, 5), (items, 0, 30)):
            await client.put(message, b"")
            told = await put_new(client, lock.fence, some, beside)
            assert (told.new, told.there, told.done) == (new, there, True)
            assert await client.get(message) is None

    lock.client.run(story)
    assert stored(lock) == dict(items)


def test_portions_are_what_a_transaction_takes() -> None:
    items = [Item(b"/a/%05d" % n, b"x" * 1000) for n in range(1000)]
    by_count = portions(items, Limits(128, 3 << 19), beside=2)
    assert [len(part) for part in by_count] == [125] * 8
    by_bytes = portions(items, Limits(10_000, 200_000))
    assert all(sum(len(i.value) for i in part) < 200_000 for part in by_bytes)
    assert [i for part in by_bytes for i in part] == items
    assert len(portions([Item(b"k", b"x" * 10_000_000)], Limits(128, 3 << 19))) == 1


def test_runs_keep_to_one_path() -> None:
    keys = [b"/a/data/1", b"/a/data/2", b"/b/data/1"]
    assert runs(Item(key, b"") for key in keys) == [
        Keys(b"/a/data/1", b"/a/data/2\0"),
        Keys(b"/b/data/1"),
    ]


def test_a_store_has_one_writer_and_the_next_one_follows(store: EtcdStoreUrl) -> None:
    first, second = EtcdWriterLock(store, "first"), EtcdWriterLock(store, "second")
    token = first.acquire().token
    with pytest.raises(StoreBusy, match="first writes to it"):
        second.acquire()
    waited: list[str] = []

    def wait(who: str) -> None:
        waited.append(who)
        first.release()

    assert second.acquire(wait).token > token
    assert waited == ["first"]
    assert not second.lost()
    second.release()
    second.release()


def revoke(lock: EtcdWriterLock) -> None:
    """As if the lease had run out while etcd was away."""

    async def story(client: Client) -> None:
        item = await client.get(lock.fence.key)
        assert item is not None
        await client.leases.revoke(item.lease)

    lock.client.run(story)


@pytest.mark.parametrize("loses", ["its lease", "its key"])
def test_a_writer_wins_its_right_back_if_nobody_wrote_meanwhile(
    store: EtcdStoreUrl, loses: str
) -> None:
    lock = EtcdWriterLock(store, "test", lease_s=2)
    before = lock.acquire()
    if loses == "its lease":
        revoke(lock)
    else:
        lock.client.delete(before.key)
    items = items_of(store.layout)
    with pytest.raises(EtcdFenced):
        lock.client.run(lambda client: put_many(client, before, items))
    wait_until(lambda: lock._fence not in (None, before), within=10, what="a new token")
    assert not lock.lost()
    assert put(lock, items).new == 300
    lock.release()


def test_a_writer_that_was_replaced_knows_it(store: EtcdStoreUrl) -> None:
    lock = EtcdWriterLock(store, "slow", lease_s=2)
    lock.acquire()
    revoke(lock)
    with held(store, "quick") as other:
        wait_until(lock.lost, within=10, what="the loss to be known")
        with pytest.raises(StoreOut):
            assert lock.fence
        assert put(other, items_of(store.layout)).new == 300
    lock.release()


def with_documents(lock: EtcdWriterLock, gpus: int) -> None:
    layout = lock.store.layout
    for n in range(gpus):
        path = layout.path("", "", f"GPU-{n}")
        lock.client.put(layout.gpu(f"GPU-{n}"), document(f"GPU-{n}", [path], []))


def swept(lock: EtcdWriterLock, now_us: int, fence: Fence | None = None) -> tuple[int, int]:
    layout, fence = lock.store.layout, fence or lock.fence
    return lock.client.run(lambda c: sweep(c, layout, fence, now_us, KEEP_US))


def left_of(lock: EtcdWriterLock, gpu: int) -> int:
    keys = data_keys(lock.store.layout.path("", "", f"GPU-{gpu}"))
    return lock.client.range(Get(keys, count_only=True)).total


def test_readings_are_removed_when_they_are_older_than_kept(lock: EtcdWriterLock) -> None:
    put(lock, items_of(lock.store.layout))
    with_documents(lock, 3)
    now = NOON_US + KEEP_US
    assert swept(lock, now) == (0, 0), "nobody knows yet when they arrived"
    assert swept(lock, now + 60) == (0, 0), "they arrived a moment ago"
    assert swept(lock, now + KEEP_US) == (300, 0)
    assert left_of(lock, 1) == 0


def test_of_readings_that_arrived_long_ago_those_of_a_later_time_stay(
    lock: EtcdWriterLock,
) -> None:
    with_documents(lock, 3)
    put(lock, items_of(lock.store.layout))
    swept(lock, NOON_US)
    assert swept(lock, NOON_US + KEEP_US + 60) == (180, 0)
    assert left_of(lock, 1) == 40
    with pytest.raises(EtcdFenced):
        swept(lock, NOON_US + KEEP_US + 99, Fence(lock.fence.key, 1))
    assert left_of(lock, 1) == 40


def test_an_archive_that_came_today_stays(lock: EtcdWriterLock) -> None:
    items = items_of(lock.store.layout)
    put(lock, items[::3])
    with_documents(lock, 3)
    swept(lock, NOON_US)
    put(lock, items)  # of the same old times, between the others
    assert swept(lock, NOON_US + 2 * KEEP_US) == (100, 0)
    assert sorted(stored(lock)) == sorted(set(dict(items)) - set(dict(items[::3])))


def test_the_collectors_upkeep_sweeps_and_says_what_it_did(lock: EtcdWriterLock) -> None:
    put(lock, items_of(lock.store.layout))  # of a year ago, and of today
    with_documents(lock, 3)
    key = lock.store.layout.meta("arrivals")
    upkeep = Upkeep(lock)
    assert upkeep.run(lambda: False, drain=False)[1]["readings_removed"] == 0
    found = lock.client.get(key)
    assert found is not None
    [[at_us, revision]] = json.loads(found.value)
    lock.client.put(key, json.dumps([[at_us - 2 * KEEP_US, revision]]).encode())
    more, told = Upkeep(lock).run(lambda: False, drain=False)
    assert (more, told) == (False, {"readings_removed": 300, "quarantine_removed": 0})


def test_notes_of_arrivals_stay_few_and_none_comes_too_late() -> None:
    notes: list[Note] = []
    for minute in range(500):
        notes, upto = noted(notes, Note(minute * 60, minute), 3600)
        assert len(notes) <= 23
        if minute > 66:
            assert minute - 66 <= upto <= minute - 60
