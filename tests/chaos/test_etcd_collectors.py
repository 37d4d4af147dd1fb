"""Collectors of a queue in etcd, killed at the worst moments and paused past their lease.

Each collector stands by while the one before it works, and takes over when that is gone.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from nexus.lake.url import parse_store_url
from nexus.telemetry.reading import READING_SCHEMA
from support.collectors import CollectorProcess, kill
from support.derived import stored
from support.etcd_collectors import EtcdShift, etcd_shift
from support.etcd_sender import EtcdSender
from support.readings import NOON_US
from support.reckoning import check_store, same_tables
from support.waiting import wait_until

pytestmark = pytest.mark.chaos
PARTITIONS = 3
FEW = ("--batch-size", "700")
BEFORE_MIDNIGHT_US = NOON_US + int(11.95 * 3600) * 1_000_000


@pytest.fixture
def shift(tmp_path: Path) -> Iterator[EtcdShift]:
    with etcd_shift(tmp_path) as made:
        yield made


@pytest.mark.timeout(1200)
def test_whatever_is_killed_every_reading_is_stored_once_and_taken_once(shift: EtcdShift) -> None:
    chance = random.Random(9)
    sender = EtcdSender(shift.queue, PARTITIONS, seed=9, start_us=BEFORE_MIDNIGHT_US)
    sender.scrapes(20)

    first = shift.start(*FEW, "--no-derive", die="before readings 1")
    first.wait_turn()
    second = shift.start(*FEW, "--no-derive", die="after readings 1")
    assert "c0" in second.wait_phase("standing by")["note"], "it says for whom it waits"
    assert first.wait() == -signal.SIGKILL, first.told()  # files are written, and no commit
    assert not any(line["batches"] for line in second.lines())

    second.wait_turn()
    third = shift.start(*FEW)
    assert second.wait() == -signal.SIGKILL, second.told()  # committed, and Spark does not know

    third.wait_turn()
    sender.start(every_s=0.05, at_most=20)
    third.wait_batches(1)
    assert third.last()["stores"][0]["replayed"] == 1, "the batch that Spark did not know"
    third.wait_batches(2 + chance.randrange(3))
    time.sleep(chance.random())
    third.kill_all()
    sender.join()

    sender.scrapes(20)
    sender.stop()
    last = shift.start("--available-now", "--batch-size", "1000")
    done = last.wait_batches(1)["batches"]
    for pid in last.workers():
        kill(pid)
    last.wait_batches(done + 1)
    assert last.wait() == 0, last.told()
    rows = check_store(shift.store, sender)
    print(f"{sender.copies} copies in {sender.messages} messages, rows {rows}")
    shift.check_taken()


@pytest.mark.timeout(900)
def test_one_that_is_paused_past_its_lease_takes_nothing_after_it(shift: EtcdShift) -> None:
    """The second has another store, so that nothing but the queue's lead keeps them apart."""
    sender = EtcdSender(shift.queue, PARTITIONS, seed=5)
    first = shift.start(*FEW, "--no-derive")
    first.wait_phase("running")
    other = parse_store_url(f"delta://{shift.folder}/other")
    second = shift.start("--no-derive", data="other-data", store=str(other))
    second.wait_phase("standing by")
    sender.scrapes(10)
    first.wait_batches(2)
    send_all(first, signal.SIGSTOP)
    sender.scrapes(10)
    sender.stop()
    second.wait_line(lambda line: line["readings"], "readings by the second")
    wait_until(lambda: not shift.queue.waiting(), within=120, what="an empty queue")
    send_all(first, signal.SIGCONT)
    assert first.wait() == 1, first.told()
    assert "c1 has taken over" in first.stderr
    assert second.stop() == 0, second.told()

    both = [readings(store) for store in (shift.store, other)]
    same_tables(distinct(pa.concat_tables(both)), sender.expected())
    for table in both:
        same_tables(table, distinct(table))
    totals = shift.queue.totals()
    assert totals.taken == totals.published, "each message was taken out once"


def readings(store: object) -> pa.Table:
    return stored(store, "readings").select(READING_SCHEMA.names)  # type: ignore[arg-type]


def distinct(table: pa.Table) -> pa.Table:
    return table.group_by(table.column_names).aggregate([]).select(table.column_names)


def send_all(collector: CollectorProcess, what: signal.Signals) -> None:
    for pid in collector.processes():
        kill(pid, what)
