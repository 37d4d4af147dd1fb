"""Two collectors never get into each other's way: one stands by, or is told what overlaps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.lake.lock import WriterLock
from nexus.lake.url import parse_store_url
from nexus.pipeline.collector.claims import Claim, Claims
from nexus.queue.url import parse_queue_url
from support.broker import BrokerProcess
from support.collectors import CollectorProcess
from support.fixtures import MakeTopic


@pytest.fixture
def collector(
    broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path
) -> Iterator[CollectorProcess]:
    queue = f"kafka://{broker.bootstrap}/{make_topic(4)}"
    made = CollectorProcess(tmp_path / "collector", queue, f"delta://{tmp_path}/lake")
    yield made
    made.kill_all()


def test_one_that_stands_by_says_for_whom_and_ends_when_told(collector: CollectorProcess) -> None:
    with WriterLock(parse_store_url(collector.store), "the-first") as lock:
        lock.acquire()
        said = collector.start().wait_phase("standing by")
        assert "the-first" in said["note"]
        assert str(os.getpid()) in said["note"]
        assert list(collector.processes()) == [collector.pid], "Spark waits for its turn"
        assert collector.stop() == 0, collector.told()
    assert collector.last()["phase"] == "ended"


def test_overlapping_partitions_are_refused_with_a_clear_error(
    collector: CollectorProcess, tmp_path: Path
) -> None:
    queue = str(parse_queue_url(collector.queue))
    other = Claim("the-first", os.getpid(), queue, "nexus-collector", "0-2", ("delta:///other",))
    claims = Claims(tmp_path / "collector" / "data", queue, "nexus-collector")
    claims.take(other)
    try:
        collector.flags = ("--partitions", "2-3")
        assert collector.start().wait() == 2
    finally:
        claims.release()
    (line,) = collector.stderr.splitlines()
    assert line.startswith("nexus: --partitions 2-3 of kafka://")
    for told in ("partitions 0-2", "the-first", "delta:///other", "--group"):
        assert told in line
