"""kill -9 of a collector between store and queue: every reading is stored once, and taken out once.

One story with two starts of Spark; `tests/chaos` has longer ones.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.telemetry.reading import READING_SCHEMA
from support.derived import stored
from support.etcd_collectors import EtcdShift, etcd_shift
from support.etcd_sender import EtcdSender
from support.published import json_messages
from support.reckoning import check_refused, same_tables

PARTITIONS = 3


@pytest.fixture
def shift(tmp_path: Path) -> Iterator[EtcdShift]:
    with etcd_shift(tmp_path) as made:
        yield made


@pytest.mark.timeout(600)
def test_a_collector_killed_after_its_commit_is_replaced_without_loss_or_repetition(
    shift: EtcdShift,
) -> None:
    sender = EtcdSender(shift.queue, PARTITIONS, seed=6)
    sender.scrapes(12)
    few = ("--batch-size", "700", "--no-derive")
    first = shift.start(*few, die="after readings 1")
    first.wait_turn()
    second = shift.start("--available-now", "--no-derive")
    waiting = second.wait_phase("standing by")
    assert waiting["note"].startswith("c0 collects from etcd://"), "it says for whom it waits"
    assert first.wait() == -signal.SIGKILL, first.told()
    assert shift.queue.waiting(), "the store has a batch that Spark and the queue do not know of"
    sender.scrapes(5)
    sender.stop()
    # Another program's message, beside all slots: it is one of a reading that was sent before.
    ((value, _),) = json_messages(sender.sent[0][:1])
    shift.queue.put_raw(b"/telemetry/queue/by-hand", value or b"")
    assert second.wait() == 0, second.told()
    last = second.last()
    assert last["stores"][0]["replayed"] == 1, "the batch that Spark did not know of"
    assert last["queue"]["waiting_messages"] == 0
    same_tables(stored(shift.store, "readings").select(READING_SCHEMA.names), sender.expected())
    check_refused(stored(shift.store, "quarantine"), sender.refused)
    shift.check_taken()
