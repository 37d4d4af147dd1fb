"""The power goes while acknowledgements flow: what was acknowledged is on the disk.

The broker's disk is an ext4 file system in a file. The cut stops the broker in mid-step, copies the
file as it is then, and starts the broker again on the copy: what was not synced is gone, as it
would be. The control acknowledges without syncing, and the checker must find the loss.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.checker import Defect, Report, check
from support.confluent import admin_of, create_topic
from support.disks import Disk
from support.fixtures import MakeBroker
from support.workload import Workload

IMAGE_BYTES = 128 << 20
ACKS_BETWEEN = 1000
SMALL_SEGMENTS = """
storage: {segment_size: 64KB, recovery_point_interval: 300ms}
performance: {max_message_size: 64KB}
"""
TOPIC = "power"


class Machine:
    """A broker on a disk that can be cut off."""

    def __init__(self, directory: Path) -> None:
        self._disk = Disk(directory, IMAGE_BYTES)
        self.disk = self._disk.where
        self.unplug = self._disk.unplug

    def cut_power(self, broker: BrokerProcess) -> None:
        """Stop in mid-step; go on from what the disk holds."""
        assert broker.process is not None
        broker.process.send_signal(signal.SIGSTOP)
        self._disk.cut_power()
        broker.kill()
        broker.data_dir = self._disk.plug_in_again() / "data"
        broker.start()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.unplug()


def run(broker: BrokerProcess, machine: Machine, *, cuts: int, partitions: int) -> Report:
    create_topic(admin_of(broker.bootstrap), TOPIC, partitions)
    with Workload(broker.bootstrap, TOPIC, partitions=partitions, producers=2) as workload:
        for _ in range(cuts):
            workload.wait_acknowledged(ACKS_BETWEEN)
            machine.cut_power(broker)
        workload.wait_acknowledged(ACKS_BETWEEN)
    reads = workload.read_back()
    report = check(workload.history, reads, min_acked=(cuts + 1) * ACKS_BETWEEN)
    print(report)
    return report


def test_nothing_acknowledged_is_lost_in_a_power_cut(
    machine: Machine, make_broker: MakeBroker
) -> None:
    broker = make_broker(data_dir=machine.disk / "data")
    run(broker, machine, cuts=2, partitions=3).assert_passed()


def lost_in_a_cut(broker: BrokerProcess, machine: Machine, topic: str) -> int:
    create_topic(admin_of(broker.bootstrap), topic)
    with Workload(broker.bootstrap, topic, partitions=1, producers=1) as workload:
        workload.wait_acknowledged(ACKS_BETWEEN)
    machine.cut_power(broker)
    report = check(workload.history, workload.read_back(), min_acked=ACKS_BETWEEN)
    return report.counts[Defect.LOST]


def test_without_syncing_the_checker_finds_the_loss(
    machine: Machine, make_broker: MakeBroker
) -> None:
    """The control: acknowledged in memory only, and then the power goes.

    The kernel may write by itself at any moment, and so hide the loss: it gets a few tries.
    """
    broker = make_broker(data_dir=machine.disk / "data", fsync="never")
    tries = (lost_in_a_cut(broker, machine, f"{TOPIC}-{n}") for n in range(5))
    assert any(lost > 0 for lost in tries)


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_many_power_cuts(machine: Machine, make_broker: MakeBroker) -> None:
    broker = make_broker(data_dir=machine.disk / "data", settings=SMALL_SEGMENTS)
    run(broker, machine, cuts=20, partitions=6).assert_passed()
