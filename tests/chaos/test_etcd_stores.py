"""Collectors with a store in etcd, killed at any moment: every reading is stored once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.store.etcd.url import EtcdStoreUrl, parse_etcd_store_url
from nexus.telemetry.reading import READING_SCHEMA
from support.collectors import CollectorProcess, kill
from support.derived import expected_gpus, expected_latest, same_rows, stored
from support.etcd_collectors import EtcdShift, etcd_shift
from support.etcd_sender import EtcdSender
from support.etcd_tasks import StoreView
from support.reckoning import check_refused, same_tables
from support.waiting import wait_until

pytestmark = pytest.mark.chaos
PARTITIONS = 3
FEW = ("--batch-size", "700", "--no-derive")


@pytest.fixture
def shift(tmp_path: Path) -> Iterator[EtcdShift]:
    with etcd_shift(tmp_path) as made:
        yield made


def store_beside(shift: EtcdShift) -> EtcdStoreUrl:
    """A store in the same etcd as the queue."""
    return parse_etcd_store_url(shift.queue.url.replace("/telemetry/queue", "/store"))


def check(shift: EtcdShift, place: EtcdStoreUrl, sender: EtcdSender) -> None:
    view, expected = StoreView(shift.queue.etcd, place.layout), sender.expected()
    same_tables(view.readings, expected)
    check_refused(view.refused, sender.refused)
    same_rows(view.known.gpus, expected_gpus(expected), "gpus")
    same_rows(view.latest, expected_latest(expected), "latest")
    shift.check_taken()


@pytest.mark.timeout(1200)
def test_whatever_is_killed_acknowledging_and_storing_are_one_step(shift: EtcdShift) -> None:
    chance, place = random.Random(3), store_beside(shift)
    sender = EtcdSender(shift.queue, PARTITIONS, seed=3)
    sender.scrapes(30)
    first = shift.start(*FEW, store=str(place))
    first.wait_turn()
    second = shift.start(*FEW, store=str(place))
    first.wait_batches(1 + chance.randrange(3))
    time.sleep(chance.random())
    first.kill_all()
    done = second.wait_batches(1)["batches"]
    for _ in range(2):
        sender.scrapes(15)
        time.sleep(chance.random())
        for pid in second.workers():
            kill(pid)
        done = second.wait_batches(done + 1)["batches"]
    finish(shift, sender, second)
    check(shift, place, sender)


@pytest.mark.timeout(1200)
def test_a_store_in_etcd_beside_tables_has_each_reading_once_as_they_do(shift: EtcdShift) -> None:
    chance, place = random.Random(8), store_beside(shift)
    sender = EtcdSender(shift.queue, PARTITIONS, seed=8)
    both = (*FEW, "--store", str(place))
    sender.scrapes(30)
    first = shift.start(*both)
    first.wait_turn()
    second = shift.start(*both)
    first.wait_batches(2 + chance.randrange(3))
    time.sleep(chance.random())
    first.kill_all()
    finish(shift, sender, second)
    same_tables(stored(shift.store, "readings").select(READING_SCHEMA.names), sender.expected())
    check(shift, place, sender)


def finish(shift: EtcdShift, sender: EtcdSender, collector: CollectorProcess) -> None:
    """Send the last, and let everything be collected."""
    sender.scrapes(5)
    sender.stop()
    wait_until(lambda: not shift.queue.waiting(), within=300, what="an empty queue")
    assert collector.stop() == 0, collector.told()
