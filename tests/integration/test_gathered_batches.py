"""`performance.linger_time` and `batch_size` decide what producers put into one record batch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.broker import NEXUS, BrokerProcess
from support.streamers import StreamerProcess, queue_of, write_csv
from support.wirelog import stored_batches

ROWS = 20
Stream = Callable[..., list[int]]


@pytest.fixture
def stream(tmp_path: Path, broker: BrokerProcess, topic: str) -> Stream:
    """Streams a file of one GPU, a reading a message; how many came in each batch."""

    def run(performance: str, *flags: str) -> list[int]:
        config = tmp_path / "nexus.yaml"
        config.write_text(f"performance: {performance}\nstreamer: {{away_after: 30s}}\n")
        source = write_csv(tmp_path / "a.csv", ROWS, gpus=1)
        words = ("--config", str(config), "--batch-size", "1", *flags)
        streamer = StreamerProcess(
            tmp_path / "streamer", queue_of(broker, topic), f"csv://{source}", words
        )
        assert streamer.run() == 0, streamer.stderr
        counts = [batch.records for batch in stored_batches(broker.data_dir, topic)]
        assert sum(counts) == ROWS
        return counts

    return run


def test_a_streamer_that_lingers_gathers_in_one_batch_what_comes_meanwhile(stream: Stream) -> None:
    """At this rate the file takes a second: ten times two messages, a tenth of a second apart."""
    assert stream("{linger_time: 2500ms}", "--rate", "20") == [ROWS]


def test_a_streamer_that_is_not_told_to_linger_sends_what_it_has(stream: Stream) -> None:
    assert len(stream("{max_connections: 7}", "--rate", "20")) > 2


@pytest.mark.parametrize("encoding", ["arrow", "json"])
def test_a_batch_smaller_than_a_message_takes_one_message(stream: Stream, encoding: str) -> None:
    counts = stream("{linger_time: 300ms, batch_size: 100}", "--encoding", encoding)
    assert counts == [1] * ROWS


def test_a_batch_ends_before_it_is_larger_than_told(
    stream: Stream, broker: BrokerProcess, topic: str
) -> None:
    counts = stream("{linger_time: 300ms, batch_size: 32KB}")
    assert 1 < len(counts) < ROWS
    assert all(batch.size <= 32 << 10 for batch in stored_batches(broker.data_dir, topic))


@pytest.mark.parametrize(("performance", "is_single"), [("{batch_size: 1}", True), ("{}", False)])
def test_a_benchmark_takes_the_size_of_its_batches_from_the_file(
    broker: BrokerProcess, tmp_path: Path, performance: str, is_single: bool
) -> None:
    config = tmp_path / "nexus.yaml"
    config.write_text(f"performance: {performance}\n")
    before = produced(broker)
    words = ["bench", "produce", "--bootstrap", broker.bootstrap, "--config", str(config)]
    words += ["--messages", "200", "--partitions", "1", "--json"]
    done = subprocess.run([NEXUS, *words], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["messages"] == 200
    requests = produced(broker) - before
    assert requests == 200 if is_single else requests < 100


def produced(broker: BrokerProcess) -> float:
    """Produce requests that were answered; the client sends a batch with each."""
    return broker.metric("nexus_broker_request_seconds_count", api="produce")
