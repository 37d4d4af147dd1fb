"""Damage is found wherever it is, reported with file and offset, and never read over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.log import LogConfig, PartitionLog
from nexus.log.scan import batches, headers
from nexus.wire.errors import CorruptMessage
from support.logs import append_values, open_log, read_all

EPOCH_BYTES = range(12, 16)


def filled(directory: Path, config: LogConfig, count: int) -> PartitionLog:
    log = open_log(directory, config)
    for n in range(count):
        append_values(log, f"value {n:03d}".encode())
    log.flush()
    return log


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << at % 8
    path.write_bytes(data)


def test_a_sound_log_has_nothing_to_report(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(segment_bytes=1000), 50)
    assert len(log.segments) > 3
    assert list(log.verify()) == []


def test_a_flipped_bit_anywhere_is_reported_with_its_batch(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(), 5)
    path = log.segments[0].path
    size = log.size_bytes // 5
    for at in range(2 * size, 3 * size):
        flip(path, at)
        found = list(log.verify())
        if at - 2 * size not in EPOCH_BYTES:
            assert (found[0].file, found[0].position, found[0].offset) == (path, 2 * size, 2)
        flip(path, at)
    assert list(log.verify()) == []


def test_a_report_names_file_position_and_offset(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(), 2)
    flip(log.segments[0].path, 65)
    [damage] = log.verify()
    what = "a record batch does not match its checksum"
    assert str(damage) == f"{log.segments[0].path} at 0 (offset 0): {what}"


def test_a_missing_segment_is_reported(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(segment_bytes=1000), 50)
    log.close()
    lost = log.segments[1]
    lost.path.unlink()
    log = open_log(tmp_path, clean=True)
    [damage] = log.verify()
    first, last = lost.base_offset, log.segments[1].base_offset - 1
    assert damage.what == f"offsets {first} to {last} are missing"


def test_a_damaged_header_is_not_read_over(tmp_path: Path) -> None:
    log = filled(tmp_path, LogConfig(segment_bytes=1000), 50)
    log.close()
    log = open_log(tmp_path, clean=True)
    size = log.segments[0].size // log.segments[1].base_offset
    flip(log.segments[0].path, 3 * size + 16)
    with pytest.raises(CorruptMessage, match="holds no batch"):
        log.read(4, 100, log.end_offset)
    assert read_all(log, start=log.segments[1].base_offset)[-1].offset == 49


def test_large_batches_are_walked_over(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(max_message_bytes=10 << 20))
    for size in (3 << 20, 10, 1 << 20, (1 << 20) + 1, 10):
        append_values(log, b"x" * size)
    assert list(log.verify()) == []
    file, end = log.segments[0].file, log.size_bytes
    walked = [(at, header, len(batch)) for at, header, batch in batches(file, 0, end)]
    assert [(at, header) for at, header, _ in walked] == list(headers(file, 0, end))
    assert [header.size for _, header, _ in walked] == [length for _, _, length in walked]
    log.abandon()
    assert open_log(tmp_path, recovery_point=0).end_offset == 5
