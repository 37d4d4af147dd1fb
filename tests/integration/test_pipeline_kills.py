"""kill -9 at the worst moments, of whatever part: every reading is stored once.

One story with as few starts of Spark as it takes: each collector stands by while the one before it
works, and takes over when that is killed. `tests/chaos` has the long one.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from nexus.lake.url import parse_store_url
from support.broker import BrokerProcess
from support.collectors import CollectorProcess, kill
from support.confluent import admin_of, create_topic
from support.fixtures import MakeBroker
from support.readings import NOON_US
from support.reckoning import check_store, committed, ends
from support.sender import Sender
from support.waiting import wait_until

PARTITIONS = 3
TOPIC = "telemetry"
BEFORE_MIDNIGHT_US = NOON_US + int(11.95 * 3600) * 1_000_000
FEW = ("--batch-size", "700")


class Shift:
    """Collectors on one queue and one store, one after the other."""

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder = folder
        self.broker = broker
        self.store = parse_store_url(f"delta://{folder}/lake")
        self.made: list[CollectorProcess] = []

    def start(self, *flags: str, die: str = "") -> CollectorProcess:
        number = len(self.made)
        flags = ("--trigger", "100ms", "--collector-id", f"c{number}", *flags)
        collector = CollectorProcess(
            self.folder / f"collector-{number}",
            f"kafka://{self.broker.bootstrap}/{TOPIC}",
            str(self.store),
            flags,
            data_dir=self.folder / "data",
            die=die,
        )
        self.made.append(collector)
        return collector.start()

    def is_amid_a_batch(self) -> bool:
        """Whether Spark has planned a batch that it has not noted the end of."""
        planned, ended = (
            max(int(path.name) for path in self.folder.glob(f"data/*/checkpoint/{log}/[0-9]*"))
            for log in ("offsets", "commits")
        )
        return planned > ended


@pytest.fixture
def shift(tmp_path: Path, make_broker: MakeBroker) -> Iterator[Shift]:
    made = Shift(tmp_path, make_broker())
    yield made
    for collector in made.made:
        collector.kill_all()


@pytest.mark.timeout(600)
def test_whatever_is_killed_every_reading_is_stored_once(shift: Shift) -> None:
    create_topic(admin_of(shift.broker.bootstrap), TOPIC, PARTITIONS)
    chance = random.Random(4)
    sender = Sender(shift.broker.bootstrap, TOPIC, PARTITIONS, seed=4, start_us=BEFORE_MIDNIGHT_US)
    sender.scrapes(20)

    first = shift.start(*FEW, "--no-derive", die="before readings 1")
    first.wait_turn()
    second = shift.start(*FEW, "--no-derive", die="after readings 1")
    waiting = second.wait_phase("standing by")
    assert "c0" in waiting["note"], "it says for whom it waits"
    assert first.wait() == -signal.SIGKILL, first.told()  # files are written, and no commit
    assert first.last()["batches"] == 1
    assert not any(line["batches"] for line in second.lines())
    first.wait_gone()

    third = shift.start(*FEW)
    assert second.wait() == -signal.SIGKILL, second.told()  # committed, and Spark does not know
    second.wait_gone()

    sender.start(every_s=0.05, at_most=20)
    third.wait_batches(1)
    assert third.last()["stores"][0]["replayed"] == 1, "the batch that Spark did not know"
    third.wait_batches(2 + chance.randrange(2))
    time.sleep(chance.random())
    third.kill_all()
    sender.join()

    sender.scrapes(20)
    sender.stop()
    last = shift.start("--available-now", "--batch-size", "1000")
    done = last.wait_batches(1)["batches"]
    kill_busy_workers(shift, last)
    last.wait_batches(done + 1)
    shift.broker.kill()
    shift.broker.start()
    assert last.wait() == 0, last.told()
    last.wait_gone()

    rows = check_store(shift.store, sender)
    print(f"{sender.copies} copies in {sender.messages} messages, rows {rows}")
    there = ends(shift.broker.bootstrap, TOPIC, PARTITIONS)
    told = committed(shift.broker.bootstrap, TOPIC, PARTITIONS, "nexus-collector")
    assert told == there


def kill_busy_workers(shift: Shift, collector: CollectorProcess) -> None:
    """Hold the workers still in the midst of a batch, then kill them."""

    def are_held_amid_a_batch() -> bool:
        if not (shift.is_amid_a_batch() and collector.workers()):
            return False
        send_all(collector.workers(), signal.SIGSTOP)
        if shift.is_amid_a_batch():
            return True
        send_all(collector.workers(), signal.SIGCONT)  # it ended in between; the next one, then
        return False

    wait_until(are_held_amid_a_batch, within=60, what="a batch with workers")
    send_all(collector.workers(), signal.SIGKILL)


def send_all(pids: Iterable[int], what: signal.Signals) -> None:
    for pid in pids:
        kill(pid, what)
