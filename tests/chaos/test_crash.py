"""kill -9 again and again under idempotent producers: nothing acknowledged is lost or repeated.

The short run belongs to every `make test`, the long one to `make chaos`. The controls damage what
was stored or read, and the checker must say so.
"""

from __future__ import annotations

import random
import time

import pytest

from support.broker import BrokerProcess
from support.checker import Defect, Report, check
from support.confluent import admin_of, create_topic
from support.fixtures import MakeBroker
from support.history import Reads
from support.wirelog import stored_batches
from support.workload import Workload

ACKS_BETWEEN = 1000
SMALL_SEGMENTS = """
storage: {segment_size: 64KB, recovery_point_interval: 300ms}
performance: {max_message_size: 64KB}
"""
RESUME_SECONDS_MAX = 5.0


def run(
    broker: BrokerProcess, *, kills: int, partitions: int, producers: int, seed: int
) -> tuple[Workload, list[float]]:
    """Kill the broker while acknowledgements flow; the workload, and how long each silence was."""
    chance = random.Random(seed)
    create_topic(admin_of(broker.bootstrap), "crash", partitions)
    silences: list[float] = []
    with Workload(
        broker.bootstrap, "crash", partitions=partitions, producers=producers
    ) as workload:
        for _ in range(kills):
            workload.wait_acknowledged(ACKS_BETWEEN + chance.randrange(ACKS_BETWEEN))
            broker.kill()
            killed = time.monotonic()
            broker.start()
            workload.wait_acknowledged(1)
            silences.append(time.monotonic() - killed)
        workload.wait_acknowledged(ACKS_BETWEEN)
    return workload, silences


def judge(workload: Workload, *, min_acked: int) -> Report:
    report = check(workload.history, workload.read_back(), min_acked=min_acked, min_ack_rate=0.95)
    print(report)
    return report


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(own_broker: BrokerProcess) -> None:
    workload, _ = run(own_broker, kills=4, partitions=3, producers=2, seed=1)
    judge(workload, min_acked=5 * ACKS_BETWEEN).assert_passed()


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dozens_of_kills(make_broker: MakeBroker, seed: int) -> None:
    """With small segments, so that kills also meet rolls, checkpoints and retention."""
    broker = make_broker(settings=SMALL_SEGMENTS)
    workload, silences = run(broker, kills=40, partitions=6, producers=4, seed=seed)
    judge(workload, min_acked=40 * ACKS_BETWEEN).assert_passed()
    print(f"silences: worst {max(silences):.2f} s of {len(silences)}")
    assert max(silences) < RESUME_SECONDS_MAX


def small_run(broker: BrokerProcess) -> Workload:
    create_topic(admin_of(broker.bootstrap), "crash", 1)
    with Workload(broker.bootstrap, "crash", partitions=1, producers=1) as workload:
        workload.wait_acknowledged(500)
    workload.reads = Reads()  # only what the log holds now counts
    return workload


def test_the_checker_sees_a_batch_that_vanished_from_the_log(own_broker: BrokerProcess) -> None:
    """The control: the last batch is cut off a stopped broker's file."""
    workload = small_run(own_broker)
    own_broker.kill()
    last = stored_batches(own_broker.data_dir, "crash")[-1]
    with last.file.open("r+b") as file:
        file.truncate(last.position)
    own_broker.start()
    report = judge(workload, min_acked=100)
    assert report.counts[Defect.LOST] == last.records
    assert not report.passed


def test_the_checker_sees_a_message_that_is_read_twice(own_broker: BrokerProcess) -> None:
    workload = small_run(own_broker)
    reads = workload.read_back()
    assert check(workload.history, reads, min_acked=100).passed
    reads.add(0, len(reads) + 5, 0, 3)
    assert check(workload.history, reads, min_acked=100).counts[Defect.DUPLICATED] == 1
