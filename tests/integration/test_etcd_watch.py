"""Watches against a real etcd of one member: no gap, no repetition, and clear ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from nexus.etcd import (
    Client,
    Closed,
    Compacted,
    EtcdConfig,
    Get,
    Keys,
    Put,
    Unavailable,
    Watch,
    connect,
    follow,
)
from support.etcd import CuttingProxy, EtcdMember, eventually
from support.ports import free_port

PROGRESS = ("--experimental-watch-progress-notify-interval", "300ms")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    member = EtcdMember(tmp_path_factory.mktemp("etcd"), flags=PROGRESS).start()
    yield member
    member.kill()


@pytest.fixture
def root(name: str) -> bytes:
    """A prefix of the test's own."""
    return f"/{name}/".encode()


async def values(watch: Watch, count: int) -> list[bytes]:
    """The values of the next events, as many as are expected."""
    seen: list[bytes] = []
    async with asyncio.timeout(20):
        while len(seen) < count:
            batch = await anext(watch)
            seen += [event.item.value for event in batch.events]
    return seen


def test_a_watch_tells_puts_and_deletes_with_what_was_before(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.watch(Keys.prefix(root), want_previous=True) as watch:
            await client.put(root + b"a", b"1")
            await client.put(root + b"a", b"2")
            await client.delete(root + b"a")
            events = [event for _ in range(3) for event in (await anext(watch)).events]
        assert [event.deleted for event in events] == [False, False, True]
        befores = [event.previous and event.previous.value for event in events]
        assert befores == [None, b"1", b"2"]

    etcd.run(story)


def test_a_watch_from_a_revision_begins_there_and_a_transaction_is_one_batch(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        await client.put(root, b"before")
        start = (await client.txn(then=[Put(root + b"%d" % i) for i in range(5)])).revision
        async with client.watch(Keys.prefix(root), start_revision=start) as watch:
            batch = await anext(watch)
        assert (batch.revision, len(batch.events)) == (start, 5)

    etcd.run(story)


def test_a_watch_leaves_out_what_is_not_wanted(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.watch(root, puts=False) as deletions:
            async with client.watch(root, deletes=False) as puts:
                await client.put(root, b"1")
                await client.delete(root)
                assert await values(puts, 1) == [b"1"]
            batch = await anext(deletions)
            assert [event.deleted for event in batch.events] == [True]

    etcd.run(story)


def test_large_revisions_arrive_whole_though_the_server_cuts_them_up(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        start = (await client.put(root, b"")).revision + 1
        for n in range(4):
            puts = [Put(root + b"%d-%d" % (n, i), bytes(40_000)) for i in range(30)]
            await client.txn(then=puts)
        async with client.watch(Keys.prefix(root), start_revision=start) as watch:
            assert len(await values(watch, 120)) == 120
        await client.delete(Keys.prefix(root))

    etcd.run(story)


def test_a_quiet_watch_is_told_of_progress_so_that_its_place_is_not_compacted(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(client: Client) -> None:
        async with client.watch(root) as watch:
            other = (await client.put(root + b"other", b"")).revision
            async with asyncio.timeout(10):
                while (batch := await anext(watch)).revision < other:
                    pass
            assert batch.events == ()
            assert watch.next_revision > other

    etcd.run(story)


def test_waiting_with_a_time_limit_loses_no_event(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.watch(root) as watch:
            assert await watch.next(timeout_s=0.05) is None
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(watch)
            await client.put(root, b"1")
            assert await values(watch, 1) == [b"1"]

    etcd.run(story)


def test_a_watch_goes_on_without_a_gap_when_its_connection_is_cut(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(direct: Client) -> None:
        async with (
            CuttingProxy(etcd.port) as proxy,
            connect(EtcdConfig((proxy.endpoint,))) as client,
            client.watch(root) as watch,
        ):
            await direct.put(root, b"1")
            assert await values(watch, 1) == [b"1"]
            await proxy.refuse()
            pending = asyncio.create_task(values(watch, 3))
            for value in (b"2", b"3", b"4"):
                await direct.put(root, value)
            await eventually(lambda: _detached(watch))
            await proxy.listen()
            assert await pending == [b"2", b"3", b"4"]

    etcd.run(story)


async def _detached(watch: Watch) -> bool:
    return not watch.attached


def test_a_watch_and_a_client_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    member = EtcdMember(tmp_path).start()

    async def story(client: Client) -> None:
        async with client.watch(Keys.prefix(b"k")) as watch:
            await client.put(b"k", b"1")
            member.kill()
            member.spawn()
            assert await client.get(b"k")  # a read is repeated until the server is back
            await client.put(b"k", b"2")
            assert await values(watch, 2) == [b"1", b"2"]

    try:
        member.run(story, timeout_s=20.0)
    finally:
        member.kill()


def test_a_watch_from_a_compacted_revision_says_so(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        old = (await client.put(root, b"1")).revision
        newest = (await client.put(root, b"2")).revision
        await client.maintenance.compact(newest)
        async with client.watch(root, start_revision=old) as watch:
            with pytest.raises(Compacted) as told:
                await anext(watch)
        assert told.value.compact_revision == newest

    etcd.run(story)


def test_following_lists_then_follows_and_lists_again_after_compaction(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(direct: Client) -> None:
        await direct.put(root + b"a", b"1")
        async with (
            CuttingProxy(etcd.port) as proxy,
            connect(EtcdConfig((proxy.endpoint,))) as client,
            aclosing(follow(client, Keys.prefix(root))) as views,
        ):
            first = await anext(views)
            assert {key: item.value for key, item in first.items.items()} == {root + b"a": b"1"}
            await direct.put(root + b"b", b"2")
            second = await anext(views)
            assert [event.key for event in second.events] == [root + b"b"]
            await proxy.refuse()
            await direct.delete(root + b"a")
            newest = (await direct.put(root + b"c", b"3")).revision
            await direct.maintenance.compact(newest)
            await proxy.listen()
            third = await anext(views)
            assert third.listed
            assert set(third.items) == {root + b"b", root + b"c"}

    etcd.run(story)


def test_a_closed_watch_tells_whoever_waits(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.watch(root) as watch:
            waiting = asyncio.create_task(watch.next())
            await asyncio.sleep(0.05)
            await watch.close()
            with pytest.raises(Closed):
                await waiting
        async with client.watch(root) as watch:
            waiting = asyncio.create_task(watch.next())
            await asyncio.sleep(0.05)
            await client.close()
            with pytest.raises(Closed):
                await waiting

    etcd.run(story)


def test_a_watch_that_nobody_serves_is_unavailable() -> None:
    async def story() -> None:
        config = EtcdConfig((f"127.0.0.1:{free_port()}",), timeout_s=0.5)
        async with connect(config) as client:
            with pytest.raises(Unavailable):
                async with client.watch(b"k"):
                    pass
            with pytest.raises(Unavailable):
                await client.range(Get(Keys(b"k")))

    asyncio.run(story())
