"""Seeking by time: the first record at or after it, exactly, whatever order the times have."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nexus.log import LogConfig, PartitionLog
from nexus.wire.compression import Codec
from support.logs import START_MS, append, append_values, make_batch, open_log, values

SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=300)


def filled(directory: Path, times: list[int], codec: Codec = Codec.NONE) -> PartitionLog:
    """One batch of three records, a millisecond apart, for each time."""
    log = open_log(directory, SMALL)
    for at_ms in times:
        append(log, make_batch(values(b"a", b"b", b"c"), at_ms=at_ms, step_ms=1, codec=codec))
    return log


def first_at_or_after(times: list[int], wanted: int) -> tuple[int, int] | None:
    every = [at_ms + n for at_ms in times for n in range(3)]
    return next(((offset, at) for offset, at in enumerate(every) if at >= wanted), None)


@pytest.mark.parametrize("order", ["ascending", "any"])
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("restarted", [False, True])
def test_the_first_record_at_or_after_a_time_is_found(
    tmp_path: Path, order: str, codec: Codec, restarted: bool
) -> None:
    times = [START_MS + 10 * n for n in range(150)]
    if order == "any":
        random.Random(1).shuffle(times)
    log = filled(tmp_path, times, codec)
    if restarted:
        log.close()
        log = open_log(tmp_path, SMALL, clean=True)
    assert len(log.segments) > 2
    for wanted in range(START_MS - 5, START_MS + 1510, 3):
        assert log.offset_for_time(wanted, log.end_offset) == first_at_or_after(times, wanted)


def test_records_beyond_the_limit_or_before_the_start_are_not_found(tmp_path: Path) -> None:
    log = filled(tmp_path, [START_MS + 10 * n for n in range(10)])
    log.flush()
    assert log.offset_for_time(START_MS + 50, 15) is None
    assert log.offset_for_time(START_MS + 50, 16) == (15, START_MS + 50)
    log.delete_before(4)
    assert log.offset_for_time(0, log.end_offset) == (4, START_MS + 11)


def test_the_latest_record_is_found(tmp_path: Path) -> None:
    log = filled(tmp_path, [START_MS, START_MS + 500, START_MS + 10])
    assert log.max_timestamp() == (5, START_MS + 502)


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.max_timestamp() is None
    assert log.offset_for_time(0, 0) is None


def test_records_without_a_time_are_not_an_answer(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append_values(log, b"a", at_ms=-1)
    assert log.offset_for_time(0, log.end_offset) is None
    assert log.max_timestamp() is None


def test_a_batch_that_cannot_be_unpacked_is_an_answer_itself(tmp_path: Path) -> None:
    from nexus.wire.batch import crc_of

    log = open_log(tmp_path)
    batch = bytearray(make_batch(values(b"a" * 100), codec=Codec.GZIP))
    batch[70:80] = bytes(10)
    batch[17:21] = crc_of(memoryview(batch)).to_bytes(4, "big")
    append(log, memoryview(batch))
    assert log.offset_for_time(START_MS, log.end_offset) == (0, START_MS)
