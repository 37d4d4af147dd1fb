"""Dozens of kills of the collector, at random moments and at exact ones, under a live producer.

Each collector stands by while the one before it works. What is killed: the driver alone, its Java
machine alone, everything at once, a Python worker, and now and then the broker.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from nexus.lake.url import parse_store_url
from support.broker import BrokerProcess
from support.collectors import CollectorProcess, kill
from support.confluent import admin_of, create_topic
from support.fixtures import MakeBroker
from support.reckoning import check_store, committed, ends
from support.sender import Sender

KILLS = 36
PARTITIONS = 6
TOPIC = "telemetry"
SCRAPES_MAX = 6000
# Upkeep and derived tables as often as can be: kills must meet them too.
SETTINGS = "derive_interval: 500ms, maintain_interval: 3s, grace: 0s"
DEATHS = [
    f"{moment} {table} {number}"
    for table in ("readings", "readings", "quarantine", "latest", "gpus", "rollup_1m", "rollup_1h")
    for moment in ("before", "after")
    for number in (0, 1, 3)
]
PATIENCE_S = 45.0  # for a commit at which a collector is to die: not every kind comes soon


class Chaos:
    """The collectors of one run, and what became of them."""

    def __init__(self, folder: Path, broker: BrokerProcess, seed: int) -> None:
        self.folder = folder
        self.broker = broker
        self.chance = random.Random(seed)
        self.store = parse_store_url(f"delta://{folder}/lake")
        self.totals: Counter[str] = Counter()
        self.made: list[CollectorProcess] = []

    def start(self, *flags: str, die: str = "") -> CollectorProcess:
        number = len(self.made)
        collector = CollectorProcess(
            self.folder / f"collector-{number}",
            f"kafka://{self.broker.bootstrap}/{TOPIC}",
            str(self.store),
            ("--trigger", "100ms", "--batch-size", "5000", *flags),
            data_dir=self.folder / "data",
            settings=f"{SETTINGS}, collector_id: c{number}",
            die=die,
        )
        self.made.append(collector)
        return collector.start()

    def next(self) -> CollectorProcess:
        """One that stands by, and may be to die by itself."""
        die = self.chance.choice(DEATHS) if self.chance.random() < 0.4 else ""
        return self.start(die=die)

    def end(self, collector: CollectorProcess) -> None:
        """Kill a collector that has the store, one way or another."""
        if collector.die and self._died(collector):
            return
        if self.chance.random() < 0.15:  # while it starts
            time.sleep(self.chance.uniform(0, 8))
        else:
            collector.wait_phase("running")
            if self.chance.random() < 0.6:
                collector.wait_batches(1)
            time.sleep(self.chance.uniform(0, 4))
            self._disturb(collector)
            time.sleep(self.chance.uniform(0, 4))
        how = self.chance.choice([self._everything, self._driver, self._java])
        how(collector)

    def _died(self, collector: CollectorProcess) -> bool:
        collector.wait_phase("running")
        deadline = time.monotonic() + PATIENCE_S
        while collector.alive and time.monotonic() < deadline:
            time.sleep(0.1)
        if collector.alive:
            return False
        assert collector.wait() == -signal.SIGKILL, collector.told()
        collector.wait_gone()
        self.totals[collector.die.rpartition(" ")[0]] += 1
        return True

    def _disturb(self, collector: CollectorProcess) -> None:
        if self.chance.random() < 0.3 and (workers := collector.workers()):
            kill(self.chance.choice(workers))
            self.totals["(worker)"] += 1
        if self.chance.random() < 0.15:
            self.broker.kill()
            self.broker.start()
            self.totals["(broker)"] += 1

    def _everything(self, collector: CollectorProcess) -> None:
        collector.kill_all()
        self.totals["everything"] += 1

    def _driver(self, collector: CollectorProcess) -> None:
        collector.kill_driver()
        self.totals["driver"] += 1

    def _java(self, collector: CollectorProcess) -> None:
        """The collector cannot go on without it: it ends, says why, and leaves nothing."""
        if not collector.kill_java():
            self._everything(collector)
            return
        assert collector.wait() == 1, collector.told()
        assert "Java machine" in collector.stderr.splitlines()[-1], collector.told()
        collector.wait_gone()
        self.totals["java"] += 1


@pytest.mark.chaos
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("seed", [1])
def test_dozens_of_killed_collectors_store_every_reading_once(
    make_broker: MakeBroker, tmp_path: Path, seed: int
) -> None:
    began = time.monotonic()
    chaos = Chaos(tmp_path, make_broker(), seed)
    create_topic(admin_of(chaos.broker.bootstrap), TOPIC, PARTITIONS)
    sender = Sender(chaos.broker.bootstrap, TOPIC, PARTITIONS, seed)
    sender.start(every_s=0.15, at_most=SCRAPES_MAX)
    try:
        running = chaos.next()
        for _ in range(KILLS):
            running.wait_turn()
            standing = chaos.next()
            chaos.end(running)
            running = standing
        chaos.totals["everything"] += 1
        running.kill_all()
        sender.stop()
        last = chaos.start("--available-now", "--batch-size", "200000")
        assert last.wait(600) == 0, last.told()
    finally:
        for collector in chaos.made:
            collector.kill_all()
    kills = sum(count for name, count in chaos.totals.items() if name[0] != "(")
    replayed = sum(c.last()["stores"][0]["replayed"] for c in chaos.made if c.lines())
    batches = sum(c.last()["batches"] for c in chaos.made if c.lines())
    print(
        f"\n{kills} kills {dict(sorted(chaos.totals.items()))} in {time.monotonic() - began:.0f} s;"
        f" {batches} batches, {replayed} of them replayed; {sender.messages} messages"
        f" with {sender.copies} copies of readings"
    )
    print(f"rows {check_store(chaos.store, sender)}")
    there = ends(chaos.broker.bootstrap, TOPIC, PARTITIONS)
    assert committed(chaos.broker.bootstrap, TOPIC, PARTITIONS, "nexus-collector") == there
    assert kills >= 30
