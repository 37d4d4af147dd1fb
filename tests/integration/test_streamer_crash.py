"""kill -9 in mid-file: all rows arrive, none twice by identity, order within a GPU kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.fixtures import MakeBroker
from support.streamers import (
    StreamerProcess,
    acknowledged,
    queue_of,
    readings_in,
    write_csv,
)
from support.waiting import wait_until

ROWS = 30_000
RATE = ("--rate", "25000")
MODES = pytest.mark.parametrize(
    "mode",
    [("--keep-timestamps",), ("--restamp",), ("--restamp", "--encoding", "json")],
    ids=" ".join,
)


def check(bootstrap: str, topic: str, rows: int, partitions: int = 12) -> int:
    """Deduplicate by identity; the first of each must be all there is, in order. The repeats."""
    table = readings_in(bootstrap, topic, partitions)
    first: dict[tuple[str, object], float] = {}
    for uuid, stamp, value in zip(
        table.column("uuid").to_pylist(),
        table.column("timestamp").to_pylist(),
        table.column("source_value").to_pylist(),
        strict=True,
    ):
        kept = first.setdefault((uuid, stamp), value)
        assert kept == value, "one identity, two readings"
    assert sorted(first.values()) == list(range(rows)), "a gap or a changed identity"
    by_gpu: dict[str, list[float]] = {}
    for (uuid, _), value in first.items():
        by_gpu.setdefault(uuid, []).append(value)
    assert all(values == sorted(values) for values in by_gpu.values())
    return int(table.num_rows) - rows


def has_checkpoint(directory: Path) -> bool:
    files = (directory / "state").glob("*/checkpoint.json")
    return any(json.loads(file.read_text())["streams"] for file in files)


@MODES
def test_a_killed_streamer_goes_on_where_acknowledgements_stopped(
    broker: BrokerProcess, name: str, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    source = f"csv://{write_csv(tmp_path / 'a.csv', ROWS)}"
    run = StreamerProcess(tmp_path / "s", queue_of(broker, name), source, (*mode, *RATE))
    for goal in (4_000, 4_000):
        run.start()
        try:
            wait_until(lambda: acknowledged(run) >= goal, what=f"{goal} readings")  # noqa: B023
            wait_until(lambda: has_checkpoint(tmp_path / "s"), what="a checkpoint")
        finally:
            run.kill()
    run.flags = mode
    assert run.run() == 0, run.stderr
    assert "going on where it stopped" in run.stdout
    repeats = check(broker.bootstrap, name, ROWS)
    assert repeats < ROWS / 2, "a restart begins at the checkpoint, not at the beginning"


@pytest.mark.parametrize("mode", [("--keep-timestamps",), ("--restamp",)], ids=" ".join)
def test_a_killed_broker_loses_and_doubles_nothing(
    make_broker: MakeBroker, name: str, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    broker = make_broker()
    source = f"csv://{write_csv(tmp_path / 'a.csv', ROWS)}"
    flags = (*mode, *RATE, "--partitions", "4")
    run = StreamerProcess(tmp_path / "s", queue_of(broker, name), source, flags).start()
    try:
        for goal in (3_000, 12_000):
            wait_until(lambda: acknowledged(run) >= goal, what=f"{goal} readings")  # noqa: B023
            broker.kill()
            broker.start()
        assert run.wait() == 0, run.stderr
    finally:
        run.kill()
    assert check(broker.bootstrap, name, ROWS, 4) == 0, "idempotent: not even a repeat"
