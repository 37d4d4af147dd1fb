"""A collector that was held still, was replaced, and comes back writes nothing any more.

On object storage the lock is a lease that runs out while its holder stands still; what keeps the
former holder from writing is the fence that every commit carries.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.collectors import CollectorProcess, kill
from support.fixtures import MakeTopic
from support.object_store import CREDENTIALS, object_store, store_at
from support.reckoning import check_store
from support.sender import Sender

PARTITIONS = 3
LEASE_SECONDS = 45.0


@pytest.fixture
def address() -> Iterator[str]:
    with object_store() as made:
        yield made


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_zombie_stores_nothing_after_another_took_over(
    broker: BrokerProcess, make_topic: MakeTopic, address: str, tmp_path: Path, seed: int
) -> None:
    topic = make_topic(PARTITIONS)
    store = store_at(address, f"zombie-{seed}")
    made: list[CollectorProcess] = []

    def start(*flags: str) -> CollectorProcess:
        made.append(
            CollectorProcess(
                tmp_path / f"collector-{len(made)}",
                f"kafka://{broker.bootstrap}/{topic}",
                str(store),
                ("--trigger", "100ms", "--batch-size", "700", "--group", topic, *flags),
                environ=CREDENTIALS,
                data_dir=tmp_path / f"data-{len(made)}",  # as on another machine
            )
        )
        return made[-1].start()

    sender = Sender(broker.bootstrap, topic, PARTITIONS, seed)
    sender.scrapes(40)
    try:
        first = start()
        first.wait_batches(seed)
        held = list(first.processes())
        for pid in held:
            kill(pid, signal.SIGSTOP)
        second = start()
        second.wait_phase("standing by")
        second.wait_batches(2)
        for pid in held:
            kill(pid, signal.SIGCONT)
        assert first.wait() == 1, first.told()
        last_word = first.stderr.splitlines()[-1]
        assert "another collector" in last_word, first.told()
        sender.scrapes(10)
        sender.stop()
        second.kill_all()
        assert start("--available-now").wait(300) == 0, made[-1].told()
    finally:
        for collector in made:
            collector.kill_all()
    print(check_store(store, sender, refused_again=True))
