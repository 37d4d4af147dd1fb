"""Publishers to three members that are killed, paused and brought back at random, for a while."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.etcd import Client
from nexus.queue.publishing import PublisherOptions
from support.etcd import EtcdCluster
from support.etcd_publishing import PARTITIONS, Sender, contents_of, etcd_url

pytestmark = pytest.mark.chaos
RUN_S = 40.0
PUBLISHERS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    three = EtcdCluster(tmp_path).start()
    yield three
    three.kill()


def disturb(cluster: EtcdCluster, chance: random.Random) -> None:
    """One or two members are killed or stand still for a moment."""
    for member in chance.sample(cluster.members, chance.choice((1, 1, 2))):
        if chance.random() < 0.5:
            member.kill()
        elif member.alive:
            member.pause()
    time.sleep(chance.uniform(0.2, 4.0))
    cluster.heal()


async def compact(client: Client) -> None:
    status = await client.maintenance.status()
    await client.maintenance.compact(status.revision)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("form", ["json", "packed"])
def test_nothing_acknowledged_is_lost_or_there_twice(cluster: EtcdCluster, form: str) -> None:
    chance = random.Random(6)
    endpoints = ",".join(member.endpoint for member in cluster.members)
    url = etcd_url(f"etcd://{endpoints}/q?form={form}")
    options = PublisherOptions(partitions=PARTITIONS, cluster="c1")
    senders = [Sender(url, options) for _ in range(PUBLISHERS)]
    over = threading.Event()
    sent: list[int] = []

    def keep_sending(sender: Sender) -> None:
        sent.append(sender.keep_sending(over.is_set))

    threads = [threading.Thread(target=keep_sending, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    try:
        ends = time.monotonic() + RUN_S
        while time.monotonic() < ends:
            disturb(cluster, chance)
            cluster.run(compact)
            time.sleep(chance.uniform(0.5, 2.0))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    contents = contents_of(cluster.config(), url)
    with contents.etcd:
        found = Counter(contents.numbers())
        expected = Counter(number for count in sent for number in range(count))
        assert len(sent) == PUBLISHERS
        assert found == expected
        assert contents.put_again() == []
        assert contents.totals().published.messages == sum(sent)
        for sender in senders:
            sender.publisher.close()
