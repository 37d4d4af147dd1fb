"""Keys that other programs put beside a queue's slots are found, and none is lost on the way."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from nexus.etcd import Client, Keys, KeyValue
from nexus.queue.errors import QueueError
from nexus.queue.etcd.counts import Count, Tally, depths, fold, totals
from nexus.queue.etcd.layout import Layout, Slot, readings_in
from nexus.queue.etcd.slots import (
    Probed,
    ensure_config,
    gaps,
    known_slots,
    partitions_of,
    probe,
    register,
)
from support.etcd import EtcdMember

NAME = "1790000000000000000_h1_3_0000000001"


@pytest.fixture
def layout(name: str) -> Layout:
    return Layout(f"/{name}/q")


async def put_all(client: Client, layout: Layout, *paths: str) -> None:
    for path in paths:
        await client.put(f"{layout.prefix}/{path}".encode(), path.encode())


async def items_in(client: Client, keys: Keys) -> list[KeyValue]:
    return [item async for page in client.scan(keys) for item in page.items]


async def in_slots(client: Client, layout: Layout) -> dict[str, Slot]:
    """Every message by its value, with the slot that it lies in."""
    return {
        item.value.decode(): slot
        for slot in await known_slots(client, layout)
        for item in await items_in(client, layout.slot(slot))
    }


def test_a_queue_is_made_once(etcd: EtcdMember, layout: Layout) -> None:
    async def story(client: Client) -> None:
        assert await partitions_of(client, layout) is None
        made = await asyncio.gather(*[ensure_config(client, layout, n) for n in (3, 5, 8)])
        assert len(set(made)) == 1
        assert await partitions_of(client, layout) == made[0]

    etcd.run(story)


def test_a_damaged_config_says_what_would_be_right(etcd: EtcdMember, layout: Layout) -> None:
    async def story(client: Client) -> None:
        await client.put(layout.meta("config"), b"12")
        with pytest.raises(QueueError, match=r'expected \{"partitions": 12\}; put it right'):
            await ensure_config(client, layout, 3)

    etcd.run(story)


def test_slots_are_registered_once_however_often_that_is_asked_for(
    etcd: EtcdMember, layout: Layout
) -> None:
    slots = [Slot(cluster, partition) for cluster in ("a", "b_2") for partition in range(100)]

    async def story(client: Client) -> None:
        await register(client, layout, slots)
        before = await items_in(client, layout.metas("slots"))
        await register(client, layout, slots[:50])
        assert await known_slots(client, layout) == tuple(slots)
        assert await items_in(client, layout.metas("slots")) == before

    etcd.run(story)


def test_a_probe_of_a_tidy_queue_finds_nothing(etcd: EtcdMember, layout: Layout) -> None:
    slots = tuple(Slot("c", partition) for partition in range(300))

    async def story(client: Client) -> None:
        await register(client, layout, slots)
        await client.put(layout.message(slots[7], 1, "h", "0", 1), b"a message")
        assert await probe(client, layout) == Probed(slots, (), 0, 0)

    etcd.run(story)


def test_a_slot_that_others_filled_is_registered_and_its_keys_stay(
    etcd: EtcdMember, layout: Layout
) -> None:
    async def story(client: Client) -> None:
        await register(client, layout, [Slot("c", 1)])
        await put_all(client, layout, f"c/10/{NAME}", "c/10/x/y", f"other/2/{NAME}")
        before = await items_in(client, layout.messages)
        probed = await probe(client, layout)
        assert probed.registered == (Slot("c", 10), Slot("other", 2))
        assert probed.adopted == 0
        assert await items_in(client, layout.messages) == before

    etcd.run(story)


def test_loose_keys_are_moved_into_slots_with_value_and_lease(
    etcd: EtcdMember, layout: Layout
) -> None:
    paths = [NAME, "plain", f"c1/{NAME}", "c1/007/x", "c1/a/b", "9/z", ""]

    async def story(client: Client) -> None:
        lease = await client.leases.grant(600)
        await put_all(client, layout, *paths)
        await client.put(f"{layout.prefix}/leased".encode(), b"leased", lease=lease.id)
        probed = await probe(client, layout, cluster="home")
        assert (probed.adopted, probed.left) == (8, 0)
        found = await in_slots(client, layout)
        assert set(found) == {*paths, "leased"}
        clusters = {path: slot.cluster for path, slot in found.items()}
        assert clusters[NAME] == clusters["plain"] == clusters["leased"] == "home"
        assert clusters[f"c1/{NAME}"] == clusters["c1/007/x"] == "c1"
        assert clusters["9/z"] == "9"
        assert len(await items_in(client, layout.messages)) == 8  # nothing is left beside them
        home = layout.slot(found["leased"])
        assert [i.lease for i in await items_in(client, home) if i.value == b"leased"] == [lease.id]
        assert (await totals(client, layout)).published == Count(8, 8)

    etcd.run(story)


def test_a_packed_key_keeps_its_name_so_its_readings_are_counted(
    etcd: EtcdMember, layout: Layout
) -> None:
    name = "1790000000000000000_h1_packed-250_0000000001"

    async def story(client: Client) -> None:
        # The same name twice: one of them must get another.
        await put_all(client, layout, f"c1/x/{name}", f"c1/x-{name}")
        await probe(client, layout)
        assert [readings_in(i.key) for i in await items_in(client, layout.messages)] == [250, 250]
        assert (await totals(client, layout)).published == Count(2, 500)

    etcd.run(story)


def test_messages_of_a_gpu_stay_together(etcd: EtcdMember, layout: Layout) -> None:
    names = [f"{1790000000000000000 + n}_h{n % 4}_0_{n:010d}" for n in range(40)]

    async def story(client: Client) -> None:
        await put_all(client, layout, *names)
        await probe(client, layout)
        found = await in_slots(client, layout)
        assert len({(name.split("_")[1], found[name]) for name in names}) == 4
        for slot in set(found.values()):
            keys = [item.key for item in await items_in(client, layout.slot(slot))]
            assert keys == sorted(keys)

    etcd.run(story)


def test_many_probes_at_a_time_adopt_each_key_once(etcd: EtcdMember, layout: Layout) -> None:
    async def story(client: Client) -> None:
        await asyncio.gather(*[put_all(client, layout, f"k{n}") for n in range(300)])
        probed = await asyncio.gather(*[probe(client, layout) for _ in range(4)])
        assert sum(each.adopted for each in probed) == 300
        assert len(await items_in(client, layout.messages)) == 300
        assert (await totals(client, layout)).published.keys == 300

    etcd.run(story)


def test_a_key_that_is_put_while_it_is_adopted_is_not_lost(
    etcd: EtcdMember, layout: Layout
) -> None:
    key = f"{layout.prefix}/busy".encode()

    async def story(client: Client) -> None:
        values: list[bytes] = []
        ended = asyncio.Event()

        async def write() -> None:
            while not ended.is_set():
                values.append(b"%d" % len(values))
                await client.put(key, values[-1])
                await asyncio.sleep(0.005)

        writing = asyncio.create_task(write())
        while len(values) < 60:
            await probe(client, layout)
        ended.set()
        await writing
        await probe(client, layout)
        found = [item.value for item in await items_in(client, layout.messages)]
        assert values[-1] in found  # what was put over is gone, as with any key
        assert len(found) == len(set(found)) > 1

    etcd.run(story)


def test_gaps_and_slots_make_up_the_whole_prefix(layout: Layout) -> None:
    slots = [Slot("b", 1), Slot("b", 10), Slot("a", 2), Slot("b", 2), Slot("a-b", 0)]
    parts = sorted([*gaps(layout, slots), *map(layout.slot, slots)])
    assert parts[0].start == layout.messages.start
    assert parts[-1].end == layout.messages.end
    assert [part.end for part in parts[:-1]] == [part.start for part in parts[1:]]


def test_what_was_taken_and_what_expired_are_told_apart(etcd: EtcdMember, layout: Layout) -> None:
    slot = Slot("c", 0)

    async def story(client: Client) -> None:
        bell, taken = (
            Tally(layout.meta("bells", "p", "0"), "p"),
            Tally(layout.meta("taken", "w"), "w"),
        )
        for tally, count in ((bell, Count(10, 100)), (taken, Count(4, 40))):
            step = tally.step(count, 1)
            done = await client.txn(when=[step.when], then=[step.put])
            tally.done(step, done.revision)
        await put_all(client, layout, *(f"c/0/{n}" for n in range(5)))
        found = await totals(client, layout)
        assert found[1:] == (Count(10, 100), Count(4, 40), 5)
        assert found.expired == 1
        (depth,) = await depths(client, layout, [slot])
        assert depth == (slot, 5, layout.slot(slot).start + b"0")

    etcd.run(story)


def test_counters_of_the_gone_are_folded_and_sums_stay(etcd: EtcdMember, layout: Layout) -> None:
    async def story(client: Client) -> None:
        for number in range(120):
            entry = {"keys": 1, "messages": 2, "at": 1000 if number < 110 else 9000}
            value = orjson.dumps(entry)
            await client.put(layout.meta("bells", f"p{number}", "0"), value)
            await client.put(layout.meta("taken", f"w{number}"), value)
        before = await totals(client, layout)
        assert await fold(client, layout, now_ms=10_000, idle_ms=5000) == 220
        assert await fold(client, layout, now_ms=10_000, idle_ms=5000) == 0
        assert (await totals(client, layout))[1:] == before[1:]
        assert len(await items_in(client, layout.metas("bells"))) == 11

    etcd.run(story)
