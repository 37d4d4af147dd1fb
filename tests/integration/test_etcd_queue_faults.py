"""A publisher through everything that happens to etcd: nothing acknowledged is lost, or twice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexus.etcd import Client, EtcdConfig, Keys
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueFull
from nexus.queue.publishing import PublisherOptions
from support.etcd import CuttingProxy, EtcdCluster, EtcdMember
from support.etcd_publishing import PARTITIONS, Contents, Sender, contents_of, etcd_url
from support.waiting import wait_until

OPTIONS = PublisherOptions(partitions=PARTITIONS, cluster="c1", in_flight_bytes=1 << 20)
QUOTA = 16 << 20


@contextmanager
def sending(endpoints: str, name: str, query: str = "") -> Iterator[Sender]:
    sender = Sender(etcd_url(f"etcd://{endpoints}/{name}/q?{query}"), OPTIONS)
    try:
        yield sender
    finally:
        sender.publisher.close()


def published_during(sender: Sender, happens: Callable[[], None]) -> int:
    """How many numbers were published while something happened, and a little longer."""
    over = threading.Event()

    def story() -> None:
        try:
            wait_until(lambda: len(sender.outcomes) >= 5, within=20)
            happens()
            seen = len(sender.outcomes)
            wait_until(lambda: len(sender.outcomes) >= seen + 5, within=30, what="going on")
        finally:
            over.set()

    thread = threading.Thread(target=story)
    thread.start()
    try:
        return sender.keep_sending(over.is_set)
    finally:
        thread.join()


def assert_each_once(config: EtcdConfig, sender: Sender, sent: int) -> None:
    contents = contents_of(config, sender.url)
    with contents.etcd:
        assert sorted(contents.numbers()) == list(range(sent))
        assert contents.put_again() == []
        assert contents.totals().published.keys == sent
    assert sender.acknowledged == set(range(sent))


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
def make_member(tmp_path: Path) -> Iterator[Callable[..., EtcdMember]]:
    made: list[EtcdMember] = []

    def make(*flags: str) -> EtcdMember:
        made.append(EtcdMember(tmp_path / f"etcd-{len(made)}", flags=flags).start())
        return made[-1]

    yield make
    for each in made:
        each.kill()


def endpoints_of(cluster: EtcdCluster) -> str:
    return ",".join(member.endpoint for member in cluster.members)


def test_the_only_member_is_killed_in_mid_stream(
    make_member: Callable[..., EtcdMember], name: str
) -> None:
    member = make_member()

    def killed() -> None:
        for _ in range(2):
            member.kill()
            member.start()
            time.sleep(0.3)

    with sending(member.endpoint, name) as sender:
        sent = published_during(sender, killed)
        assert_each_once(member.config(), sender, sent)


def test_the_leader_of_three_is_killed(cluster: EtcdCluster, name: str) -> None:
    def killed() -> None:
        cluster.run(cluster.leader).kill()

    with sending(endpoints_of(cluster), name) as sender:
        sent = published_during(sender, killed)
        assert_each_once(cluster.config(), sender, sent)


def test_quorum_is_lost_and_comes_back(cluster: EtcdCluster, name: str) -> None:
    def lost_for_a_while() -> None:
        for member in cluster.members[:2]:
            member.kill()
        time.sleep(1.0)
        seen = len(sender.outcomes)
        time.sleep(0.5)
        assert len(sender.outcomes) <= seen + 4  # what was answered just before
        cluster.heal()

    with sending(endpoints_of(cluster), name) as sender:
        sent = published_during(sender, lost_for_a_while)
        assert_each_once(cluster.config(), sender, sent)


def test_answers_that_are_lost_make_nothing_happen_twice(
    make_member: Callable[..., EtcdMember], name: str
) -> None:
    member = make_member()

    async def story() -> None:
        async with CuttingProxy(member.port) as proxy:
            with sending(proxy.endpoint, name) as sender:
                over = asyncio.Event()
                done = asyncio.create_task(asyncio.to_thread(sender.keep_sending, over.is_set))
                for _ in range(6):
                    proxy.lose_answers = True
                    await asyncio.sleep(0.1)
                    await proxy.cut()
                    proxy.lose_answers = False
                    await asyncio.sleep(0.3)
                over.set()
                sent = await done
                assert sent > 0
                await asyncio.to_thread(assert_each_once, member.config(), sender, sent)

    asyncio.run(story())


def test_history_is_compacted_under_load(make_member: Callable[..., EtcdMember], name: str) -> None:
    member = make_member()

    async def compact(client: Client) -> None:
        for _ in range(30):
            status = await client.maintenance.status()
            await client.maintenance.compact(status.revision)
            await asyncio.sleep(0.02)

    with sending(member.endpoint, name) as sender:
        sent = published_during(sender, lambda: member.run(compact))
        assert_each_once(member.config(), sender, sent)


@pytest.mark.parametrize(
    "flags", [("--max-txn-ops", "20"), ("--max-request-bytes", "9000")], ids=["operations", "bytes"]
)
def test_a_server_that_takes_less_after_a_restart_gets_smaller_transactions(
    make_member: Callable[..., EtcdMember], name: str, flags: tuple[str, ...]
) -> None:
    member = make_member()
    with sending(member.endpoint, name) as sender:
        sender.send(range(200))
        sender.wait(1)
        member.kill()
        member.flags = flags
        member.start()
        sender.send(range(200, 600))
        assert sender.wait(2) == [None, None]
        assert_each_once(member.config(), sender, 600)


def fill(sender: Sender, *, size: int = 20_000) -> int:
    """Publish until the queue has refused for a while; how many numbers were taken."""
    sent, since = 0, time.monotonic()
    while time.monotonic() - since < 1.5:
        try:
            sender.send(range(sent, sent + 8), size=size)
            sent, since = sent + 8, time.monotonic()
        except QueueFull as full:
            since = since if "quota" in str(full) else time.monotonic()
            time.sleep(0.005)
    return sent


def test_near_the_quota_publishers_are_told_before_etcd_goes_read_only(
    make_member: Callable[..., EtcdMember], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    member = make_member("--quota-backend-bytes", str(QUOTA))
    with sending(member.endpoint, name) as sender, BlockingClient(member.config()) as etcd:
        sent = fill(sender)
        with pytest.raises(QueueFull, match=r"quota of 16MB, and nothing is put beyond 85%"):
            sender.send([sent])
        assert "quota" in sender.publisher.stats.problem
        assert etcd.run(lambda client: client.maintenance.alarms()) == ()
        etcd.put(b"/others/can/write", b"still")
        contents = Contents(etcd, sender.url.layout)
        held = contents.numbers()
        assert len(held) == len(set(held)) < sent  # the rest waits with the publisher
        etcd.delete(contents.layout.messages)
        now = etcd.run(lambda client: client.maintenance.status()).revision
        etcd.run(lambda client: client.maintenance.compact(now, physical=True))
        assert sender.publisher.flush(20) == 0
        assert sorted([*held, *contents.numbers()]) == list(range(sent))
        assert sender.publisher.stats.problem == ""
    assert "nothing is published for now: etcd's database is at" in caplog.text


def test_a_database_that_others_have_filled_is_waited_for(
    make_member: Callable[..., EtcdMember], name: str
) -> None:
    member = make_member("--quota-backend-bytes", str(QUOTA))

    async def exhaust(client: Client) -> None:
        for number in range(1000):
            await client.put(b"/others/%d" % number, bytes(1_000_000))

    async def recover(client: Client) -> None:
        await client.delete(Keys.prefix(b"/others/"))
        status = await client.maintenance.status()
        await client.maintenance.compact(status.revision, physical=True)
        await client.maintenance.defragment(member.endpoint)
        for alarm in await client.maintenance.alarms():
            await client.maintenance.disarm(alarm)

    # A publisher that is told a larger quota learns of the end from etcd's own refusal.
    with sending(member.endpoint, name, "quota=1GB") as sender:
        sender.send(range(8))
        sender.wait(1)
        with pytest.raises(Exception, match="space exceeded"):
            member.run(exhaust)
        sender.send(range(8, 16))
        wait_until(lambda: "NOSPACE" in sender.publisher.stats.problem)
        with pytest.raises(QueueFull, match="nexus queue doctor"):
            sender.send([16])
        member.run(recover)
        assert sender.wait(2) == [None, None]
        assert_each_once(member.config(), sender, 16)
