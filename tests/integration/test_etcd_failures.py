"""Cut connections and dead endpoints: what is repeated, what is ambiguous, and what is not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from nexus.etcd import Ambiguous, Client, Closed, EtcdConfig, Get, Keys, Put, Unavailable, connect
from nexus.etcd.blocking import BlockingClient
from support.etcd import CuttingProxy, EtcdMember, eventually
from support.ports import free_port


@pytest.fixture
def root(name: str) -> bytes:
    """A prefix of the test's own."""
    return f"/{name}/".encode()


@asynccontextmanager
async def through_proxy(
    etcd: EtcdMember, **changes: float
) -> AsyncIterator[tuple[CuttingProxy, Client]]:
    """A client whose connection, made already, leads through a proxy."""
    async with (
        CuttingProxy(etcd.port) as proxy,
        connect(replace(etcd.config(**changes), endpoints=(proxy.endpoint,))) as client,
    ):
        await client.get(b"connected")
        yield proxy, client


def test_a_write_is_ambiguous_when_its_answer_is_cut_off(etcd: EtcdMember, root: bytes) -> None:
    async def story(direct: Client) -> None:
        async with through_proxy(etcd) as (proxy, client):
            proxy.lose_answers = True
            writing = asyncio.create_task(client.put(root, b"1"))
            await eventually(lambda: direct.get(root))
            await proxy.cut()
            with pytest.raises(Ambiguous) as told:
                await writing
            assert not told.value.retriable
            item = await direct.get(root)
            assert item is not None
            assert item.version == 1  # and nobody tried it a second time

    etcd.run(story)


def test_a_write_is_ambiguous_when_it_may_have_been_cut_off_itself(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(direct: Client) -> None:
        async with through_proxy(etcd) as (proxy, client):
            proxy.lose_requests = True
            writing = asyncio.create_task(client.txn(then=[Put(root, b"1")]))
            await asyncio.sleep(0.1)
            await proxy.cut()
            with pytest.raises(Ambiguous):
                await writing
            assert await direct.get(root) is None

    etcd.run(story)


def test_a_write_without_an_answer_in_time_is_ambiguous(etcd: EtcdMember, root: bytes) -> None:
    async def story(direct: Client) -> None:
        async with through_proxy(etcd) as (proxy, client):
            proxy.lose_answers = True
            with pytest.raises(Ambiguous):
                await client.delete(root, timeout_s=0.3)

    etcd.run(story)


def test_a_read_is_repeated_when_its_answer_is_cut_off(etcd: EtcdMember, root: bytes) -> None:
    async def story(direct: Client) -> None:
        await direct.put(root, b"1")
        async with through_proxy(etcd) as (proxy, client):
            proxy.lose_answers = True
            reading = asyncio.create_task(client.get(root))
            only_reading = asyncio.create_task(client.txn(then=[Get(Keys(root))]))
            await asyncio.sleep(0.1)
            proxy.lose_answers = False
            await proxy.cut()
            item = await reading
            assert item is not None
            assert item.value == b"1"
            assert (await only_reading).got(0).items[0].value == b"1"

    etcd.run(story)


def test_a_write_that_could_not_be_sent_goes_to_another_endpoint(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story() -> None:
        endpoints = (f"127.0.0.1:{free_port()}", etcd.endpoint, f"127.0.0.1:{free_port()}")
        for _ in range(4):  # whichever endpoint comes first
            async with connect(EtcdConfig(endpoints)) as client:
                await client.put(root, b"1")
        async with connect(EtcdConfig((etcd.endpoint,))) as client:
            item = await client.get(root)
        assert item is not None
        assert item.version == 4

    asyncio.run(story())


def test_a_write_that_no_endpoint_takes_is_unavailable_and_may_be_repeated(
    etcd: EtcdMember, root: bytes
) -> None:
    async def story(direct: Client) -> None:
        async with through_proxy(etcd, timeout_s=0.5) as (proxy, client):
            await proxy.refuse()
            await eventually(lambda: _unavailable(client))
            with pytest.raises(Unavailable, match="refused") as told:
                await client.put(root, b"1")
            assert told.value.retriable
            assert await direct.get(root) is None
            await proxy.listen()
            await eventually(lambda: _answers(client))
            await client.put(root, b"1")

    etcd.run(story)


async def _answers(client: Client) -> bool:
    return not await _unavailable(client)


async def _unavailable(client: Client) -> bool:
    try:
        await client.get(b"any")
    except Unavailable:
        return True
    return False


def test_a_paused_server_makes_reads_late_not_wrong(etcd: EtcdMember, root: bytes) -> None:
    async def story(client: Client) -> None:
        await client.put(root, b"1")
        etcd.pause()
        reading = asyncio.create_task(client.get(root))
        await asyncio.sleep(0.5)
        etcd.resume()
        item = await reading
        assert item is not None
        assert item.value == b"1"

    etcd.run(story, attempt_s=0.3)


def test_a_client_is_closed_for_other_loops_and_after_its_end(etcd: EtcdMember) -> None:
    async def opened() -> Client:
        client = Client(etcd.config())
        await client.get(b"any")
        return client

    async def used(client: Client) -> None:
        await client.get(b"any")

    async def story(client: Client) -> None:
        await client.close()
        await client.close()
        with pytest.raises(Closed):
            await client.get(b"any")

    with asyncio.Runner() as runner:
        client = runner.run(opened())
        with pytest.raises(Closed, match="another event loop"):
            asyncio.run(used(client))
        runner.run(client.close())
    etcd.run(story)


def test_a_call_under_way_is_told_that_the_client_was_closed(etcd: EtcdMember, root: bytes) -> None:
    async def story(direct: Client) -> None:
        async with through_proxy(etcd) as (proxy, client):
            proxy.lose_answers = True
            reading = asyncio.create_task(client.get(b"any"))
            writing = asyncio.create_task(client.put(root, b""))
            await asyncio.sleep(0.1)
            await client.close()
            with pytest.raises(Closed):
                await reading
            with pytest.raises(Ambiguous):
                await writing

    etcd.run(story)


def test_a_process_forked_from_one_with_a_client_is_told_that_it_cannot_have_one(
    etcd: EtcdMember, root: bytes
) -> None:
    with BlockingClient(etcd.config()) as client:
        client.put(root, b"parent")
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            tries = (lambda: client.get(root), lambda: BlockingClient(etcd.config()))
            os._exit(0 if all(map(_is_closed, tries)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.get(root) is not None  # the parent's goes on


def _is_closed(use: Callable[[], object]) -> bool:
    try:
        use()
    except Closed:
        return True
    return False


FORK_THEN_OPEN = """
import os, sys
from nexus.etcd import EtcdConfig
from nexus.etcd.blocking import BlockingClient

child = os.fork()
with BlockingClient(EtcdConfig((sys.argv[1],))) as client:
    client.put(sys.argv[2].encode() + str(child != 0).encode(), b"")
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_processes_that_were_forked_before_have_clients_of_their_own(
    etcd: EtcdMember, root: bytes
) -> None:
    command = [sys.executable, "-c", FORK_THEN_OPEN, etcd.endpoint, root.decode()]
    subprocess.run(command, check=True, timeout=60)

    async def story(client: Client) -> None:
        assert await client.count(Keys.prefix(root)) == 2

    etcd.run(story)


def test_code_without_a_loop_can_do_the_same(etcd: EtcdMember, root: bytes) -> None:
    with BlockingClient(etcd.config()) as client:
        with client.watch(Keys.prefix(root)) as watch:
            assert watch.next(timeout_s=0.05) is None
            client.txn(then=[Put(root + b"%d" % i, b"x") for i in range(30)])
            batch = watch.next(timeout_s=10)
            assert batch is not None
            assert len(batch.events) == 30
        pages = client.scan(Get(Keys.prefix(root), limit=10))
        assert sum(len(page.items) for page in pages) == 30
        for _ in client.scan(Get(Keys.prefix(root), limit=10)):
            break  # and whoever stops early leaves nothing open
        assert client.range(Get(Keys.prefix(root), count_only=True)).total == 30
        assert client.delete(Keys.prefix(root)).deleted == 30
        assert client.get(root) is None
        assert client.limits().operations == 128
        assert client.run(lambda inner: inner.count(Keys.prefix(root))) == 0
    client.close()
    with pytest.raises(Closed):
        client.get(root)
