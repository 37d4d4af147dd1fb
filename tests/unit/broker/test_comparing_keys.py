"""Replicas that compact on their own are the same when readers end up with the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.broker.comparing import Difference
from nexus.broker.comparing_keys import Keys, compared
from nexus.log import LogConfig, PartitionLog
from support.logs import START_MS, append, make_batch, open_log

CONFIG = LogConfig(
    segment_bytes=1000,
    compact=True,
    delete=False,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1000,
)
WRITTEN = [(b"key %d" % (n % 5), b"value %03d" % n) for n in range(40)]
DELETED: tuple[bytes, None] = (b"key 2", None)


def replica(directory: Path, *, cleaned: int = 0) -> PartitionLog:
    """A log that was compacted so many times, each a tombstone's time after the one before."""
    log = open_log(directory, CONFIG)
    for pair in [*WRITTEN, DELETED]:
        append(log, make_batch([pair]))
    log.roll()
    log.flush()
    for run in range(cleaned):
        log.compact(START_MS + run * 2000)
    return log


def keys_of(log: PartitionLog, end: int | None = None) -> Keys:
    keys = Keys(0, log.end_offset if end is None else end)
    piece = log.read(log.start_offset, 1 << 20, log.end_offset)
    while piece is not None:
        assert keys.take(memoryview(piece.read()))
        piece = log.read(keys.reached, 1 << 20, log.end_offset)
    return keys


def test_cleaners_at_different_points_are_no_difference(tmp_path: Path) -> None:
    logs = {n: replica(tmp_path / f"{n}", cleaned=n) for n in range(3)}
    sizes = {log.size_bytes for log in logs.values()}
    assert len(sizes) == 3, "the second run takes the tombstone away"
    found = compared({n: keys_of(log) for n, log in logs.items()})
    assert found.differences == ()
    assert found.keys == 4


def test_a_value_that_came_back_or_is_another_is_a_difference(tmp_path: Path) -> None:
    logs = {n: replica(tmp_path / f"{n}", cleaned=n) for n in range(3)}
    found = {n: keys_of(log) for n, log in logs.items()}
    key = next(iter(found[1].newest))
    offset, _ = found[1].newest[key]
    found[1].newest[key] = (offset, b"another")
    found[2].newest[b"came back"] = (7, b"value")
    assert compared(found).differences == (
        Difference(7, (2,), "different"),
        Difference(offset, (1,), "different"),
    )


def test_a_key_that_changed_since_is_not_compared(tmp_path: Path) -> None:
    behind, ahead = replica(tmp_path / "behind"), replica(tmp_path / "ahead")
    for key, _ in WRITTEN[:5]:
        append(ahead, make_batch([(key, b"newer")]))
    ahead.roll()
    ahead.flush()
    ahead.compact(START_MS)
    found = {1: keys_of(behind), 2: keys_of(ahead, end=behind.end_offset)}
    assert found[2].newest == {}, "for its readers the newer ones count"
    assert compared(found).differences == ()


@pytest.mark.parametrize("at", [8, 70], ids=["length", "records"])
def test_damage_is_named_by_its_broker(tmp_path: Path, at: int) -> None:
    logs = {n: replica(tmp_path / f"{n}", cleaned=n) for n in range(2)}
    found = {0: keys_of(logs[0]), 1: Keys(0, logs[1].end_offset)}
    data = bytearray(logs[1].segments[0].path.read_bytes())
    data[at] ^= 0x55
    found[1].take(memoryview(data))
    [difference] = compared(found).differences
    assert (difference.brokers, difference.what) == ((1,), "damaged")
