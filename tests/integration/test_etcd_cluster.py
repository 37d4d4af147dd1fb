"""An etcd of three members that die, pause and come back, and a client that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from nexus.etcd import Ambiguous, Client, EtcdError, Get, Keys, Lease, Put, Unavailable, absent
from support.etcd import EtcdCluster, eventually


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("cluster")).start()
    yield cluster
    cluster.kill()


@pytest.fixture
def cluster(started: EtcdCluster) -> EtcdCluster:
    """Three members that are well, whatever a test did to them before."""
    return started.heal()


@pytest.fixture
def root(name: str) -> bytes:
    """A prefix of the test's own."""
    return f"/{name}/".encode()


async def write_once(client: Client, key: bytes) -> None:
    """Write a key that nobody else writes; again when nobody can tell, as only a compare may."""
    while True:
        try:
            # A write on its way to a leader that dies is lost, and its member waits for seconds.
            await client.txn(when=[absent(key)], then=[Put(key)], timeout_s=1.5)
        except (Ambiguous, Unavailable):
            continue
        return


async def write_while(client: Client, root: bytes, ended: asyncio.Event) -> list[bytes]:
    """Acknowledged keys, one after the other, until told to end."""
    written: list[bytes] = []
    while not ended.is_set():
        key = root + b"%06d" % len(written)
        await write_once(client, key)
        written.append(key)
    return written


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(
    cluster: EtcdCluster, root: bytes
) -> None:
    async def story(client: Client) -> None:
        ended = asyncio.Event()
        async with client.watch(Keys.prefix(root)) as watch:
            writing = asyncio.create_task(write_while(client, root, ended))
            await asyncio.sleep(0.3)
            (await cluster.leader(client)).kill()
            before = await client.count(Keys.prefix(root))
            await eventually(lambda: _more_than(client, root, before + 20))
            ended.set()
            written = await writing
            seen: list[bytes] = []
            while len(seen) < len(written):
                seen += [event.key for event in (await anext(watch)).events]
        assert seen == written
        kept = await client.range(Get(Keys.prefix(root), keys_only=True))
        assert [item.key for item in kept.items] == written
        assert {item.version for item in kept.items} == {1}

    cluster.run(story)


def test_a_client_goes_on_when_the_member_that_serves_it_is_killed(
    cluster: EtcdCluster, root: bytes
) -> None:
    async def story(client: Client) -> None:
        await client.put(root, b"")
        dead = cluster.serving(client)
        dead.kill()
        await write_once(client, root + b"after")
        with pytest.raises(Unavailable):
            await client.maintenance.status(dead.endpoint)
        assert await client.count(Keys.prefix(root)) == 2

    cluster.run(story)


def test_a_held_lease_survives_the_death_of_the_leader(cluster: EtcdCluster, root: bytes) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(5) as lease:
            await client.put(root, b"", lease=lease.id)
            (await cluster.leader(client)).kill()
            await write_once(client, root + b"new leader")
            remaining = lease.remaining_s()
            await eventually(lambda: _renewed(lease, remaining))
            assert not lease.lost()
            assert await client.get(root) is not None

    cluster.run(story)


def test_a_member_that_hangs_is_left_for_another_by_calls_leases_and_watches(
    cluster: EtcdCluster, root: bytes
) -> None:
    async def story(client: Client) -> None:
        async with client.leases.hold(10) as lease, client.watch(root) as watch:
            await client.put(root, b"", lease=lease.id)
            assert len((await anext(watch)).events) == 1
            serving = cluster.serving(client)
            serving.pause()
            assert await client.get(root) is not None
            assert cluster.serving(client) is not serving
            remaining_s = lease.remaining_s()
            await eventually(lambda: _renewed(lease, remaining_s))
            assert not lease.lost()
            await eventually(lambda: _accepted(client, root))
            while not (batch := await anext(watch)).events:
                pass
            assert batch.events[0].item.value == b"after"

    # If it leads, the others choose another first, which a busy machine does slowly.
    cluster.run(story, attempt_s=0.5, timeout_s=10.0, ping_every_s=5.0, ping_timeout_s=1.0)


def test_without_a_quorum_writes_fail_and_with_it_everything_goes_on(
    cluster: EtcdCluster, root: bytes
) -> None:
    async def story(client: Client) -> None:
        await client.put(root, b"before")
        async with client.watch(root) as watch:
            down = cluster.members[:2]
            for member in down:
                member.kill()
            await eventually(lambda: _refused(client, root))
            stale = await client.range(Get(Keys(root), serializable=True))
            assert [item.value for item in stale.items] == [b"before"]
            status = await client.maintenance.status(cluster.members[2].endpoint)
            assert status.revision > 0
            for member in down:
                member.spawn()
            await eventually(lambda: _accepted(client, root), within=30)
            while True:
                batch = await anext(watch)
                if b"after" in [event.item.value for event in batch.events]:
                    return

    cluster.run(story, timeout_s=1.5, attempt_s=0.7)


def test_members_that_agree_have_one_hash(cluster: EtcdCluster, root: bytes) -> None:
    async def story(client: Client) -> None:
        revision = (await client.put(root, b"")).revision
        hashes = set()
        for endpoint in client.maintenance.endpoints:
            await eventually(lambda at=endpoint: _reached(client, at, revision))  # type: ignore[misc]
            hashes.add((await client.maintenance.hash(endpoint, revision)).hash)
        assert len(hashes) == 1

    cluster.run(story)


async def _more_than(client: Client, root: bytes, count: int) -> bool:
    return await client.count(Keys.prefix(root)) > count


async def _renewed(lease: Lease, remaining_s: float) -> bool:
    return lease.remaining_s() > remaining_s


async def _reached(client: Client, endpoint: str, revision: int) -> bool:
    try:
        return (await client.maintenance.status(endpoint)).revision >= revision
    except Unavailable:  # it is busy: asked again
        return False


async def _refused(client: Client, root: bytes) -> bool:
    """Whether a write is refused as unsent, which is what members without a leader do."""
    try:
        await client.put(root, b"during", timeout_s=0.5)
    except Unavailable:
        return True
    except Ambiguous:
        return False
    return False


async def _accepted(client: Client, root: bytes) -> bool:
    try:
        await client.put(root, b"after")
    except EtcdError:
        return False
    return True
