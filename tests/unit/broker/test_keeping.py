"""What a broker keeps in a topic of its own is loaded whole, or it is said what is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus.broker.keeping import Damaged, replay
from nexus.broker.partition import NotLeader, Partition
from nexus.cluster.leading import Rules
from nexus.cluster.partition_state import PartitionState
from nexus.log import LogConfig, PartitionLog
from support.logs import append_values, open_log

COUNT = 30
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
LENGTH_AT, RECORDS_AT = 8, 70


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Several segments of batches with one record each, whose values are their numbers."""
    kept = open_log(tmp_path, CONFIG)
    written = [append_values(kept, b"value %03d" % n).base_offset for n in range(COUNT)]
    assert written == list(range(COUNT))
    kept.flush()
    return kept


def flip(log: PartitionLog, number: int, at: int) -> None:
    """Damage the batch with a number, in the first segment."""
    first = log.segments[0]
    size = first.size // log.segments[1].base_offset
    with first.path.open("r+b") as file:
        file.seek(number * size + at)
        [byte] = file.read(1)
        file.seek(number * size + at)
        file.write(bytes([byte ^ 0x55]))


def loaded(log: PartitionLog, damaged: Damaged, make: Callable[[], Partition]) -> list[int]:
    """The numbers of what is loaded."""

    async def off_loop(work: Callable[..., object], *args: object) -> object:
        return await asyncio.to_thread(work, *args)

    async def run() -> list[int]:
        partition = make()
        found = [record async for some in replay(partition, off_loop, damaged) for record in some]
        return [int((record.value or b"").split()[1]) for record in found]

    return asyncio.run(run())


def alone(log: PartitionLog) -> Partition:
    return Partition("kept", 0, log, None, lambda _: None)


@pytest.mark.parametrize("at", [LENGTH_AT, RECORDS_AT], ids=["length", "records"])
def test_what_nobody_has_a_copy_of_is_left_out_and_said_to_be_lost(
    log: PartitionLog, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (2, 4):
        flip(log, number, at)
    told: list[int] = []

    def damaged(_: Partition, offset: int) -> bool:
        told.append(offset)
        return False

    rest = [n for n in range(COUNT) if n not in (2, 4)]
    assert loaded(log, damaged, lambda: alone(log)) == rest
    assert told == [2, 4]
    assert "counts as lost" in caplog.text


def test_a_damaged_batch_is_waited_for_while_others_may_have_it(log: PartitionLog) -> None:
    flip(log, 3, RECORDS_AT)
    asked: list[int] = []

    def damaged(_: Partition, offset: int) -> bool:
        asked.append(offset)
        if len(asked) == 2:
            flip(log, 3, RECORDS_AT)  # as it was
        return True

    assert loaded(log, damaged, lambda: alone(log)) == list(range(COUNT))
    assert asked == [3, 3]


def test_who_leads_no_more_waits_no_more(log: PartitionLog) -> None:
    flip(log, 3, RECORDS_AT)
    partitions: list[Partition] = []

    def led() -> Partition:
        partition = Partition("kept", 0, log, None, lambda _: None, is_shared=True)
        partition.lead(PartitionState((1,), 1, 0, (1,), version=1), 1, Rules(), 0.0)
        partitions.append(partition)
        return partition

    def damaged(partition: Partition, _: int) -> bool:
        partition.step_down(7)
        return True

    with pytest.raises(NotLeader):
        loaded(log, damaged, led)
