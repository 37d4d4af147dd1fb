"""What a queue hands out is read from the log, cut to what is meant, and never from damage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nexus.broker.partition import Partition
from nexus.broker.sharing.reading import Reader
from nexus.groups.sharing.deliveries import Acquired
from nexus.log import PartitionLog
from nexus.wire.errors import CorruptMessage
from nexus.wire.records import decode_records
from support.logs import append_values, open_log

VALUES = [b"value %d" % n for n in range(10)]
RECORDS_AT = 70


@pytest.fixture
def old_log(tmp_path: Path) -> PartitionLog:
    """One batch, which was written before this start: nobody looked at its checksum since."""
    log = open_log(tmp_path)
    append_values(log, *VALUES)
    log.flush()
    log.close()
    return open_log(tmp_path, clean=True)


def reader(log: PartitionLog, told: list[int]) -> Reader:
    async def off_loop(work: Callable[..., object], *args: object) -> object:
        return await asyncio.to_thread(work, *args)

    def damaged(_: Partition, offset: int) -> bool:
        told.append(offset)
        return False

    return Reader(off_loop, Partition("queue", 0, log, None, lambda _: None), damaged)


def read(reading: Reader, first: int, last: int) -> list[bytes | None]:
    async def run() -> bytearray:
        data, _, _ = await reading.read([Acquired(first, last, 1)], 1 << 20)
        return data

    data = memoryview(asyncio.run(run()))
    return [record.value for record in decode_records(data)]


def test_only_what_is_meant_is_read(old_log: PartitionLog) -> None:
    told: list[int] = []
    reading = reader(old_log, told)
    assert read(reading, 2, 4) == VALUES[2:5]
    assert read(reading, 5, 9) == VALUES[5:]
    assert told == []


def test_a_part_of_a_damaged_batch_gets_no_checksum_of_its_own(old_log: PartitionLog) -> None:
    with old_log.segments[0].path.open("r+b") as file:
        file.seek(RECORDS_AT)
        [byte] = file.read(1)
        file.seek(RECORDS_AT)
        file.write(bytes([byte ^ 0x55]))
    told: list[int] = []
    with pytest.raises(CorruptMessage):
        read(reader(old_log, told), 2, 4)
    assert told == [0]
