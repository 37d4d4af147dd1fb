"""The streamer's side port on a real run: status, metrics, health, uploads."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.broker import BrokerProcess
from support.streamers import (
    HEADER,
    StreamerProcess,
    acknowledged,
    long_rows,
    queue_of,
    readings_in,
    write_csv,
)
from support.waiting import wait_until


@pytest.fixture
def run(broker: BrokerProcess, name: str, tmp_path: Path) -> Iterator[StreamerProcess]:
    """A streamer that follows a small file, so that it stays."""
    source = f"csv://{write_csv(tmp_path / 'a.csv', 100)}"
    environ = {"NEXUS_STREAMER_UPLOAD_SIZE": "100KB"}
    process = StreamerProcess(
        tmp_path / "s", queue_of(broker, name), source, ("--follow",), environ
    ).start()
    yield process
    assert process.stop(signal.SIGINT) == 0, process.stderr


def test_status_health_and_metrics_tell_what_was_sent(run: StreamerProcess) -> None:
    wait_until(lambda: acknowledged(run) == 100, what="all readings")
    status = run.status()
    assert status["queue"] == "flowing"
    assert status["readings"]["unacknowledged"] == 0
    code, text = run.get("/health")
    assert (code, json.loads(text)["ready"]) == (200, True)
    families = {f.name: f for f in text_string_to_metric_families(run.get("/metrics")[1])}
    (sample,) = families["nexus_streamer_readings_acknowledged"].samples
    assert sample.value == 100
    assert "process_resident_memory_bytes" in families


def test_an_uploaded_file_is_in_the_queue_when_the_answer_comes(
    run: StreamerProcess, broker: BrokerProcess, name: str
) -> None:
    wait_until(lambda: acknowledged(run) == 100, what="the file")
    text = HEADER + "".join(long_rows(100, 50)) + '"bad","row"\n'
    answer = httpx.post(f"{run.http}/api/v1/csv/upload", files={"file": ("up.csv", text)})
    assert answer.status_code == 200
    document = answer.json()
    assert (document["records"], document["skipped"]) == (50, 1)
    assert document["rate"] > 0
    values = readings_in(broker.bootstrap, name).column("source_value").to_pylist()
    assert sorted(values) == list(range(150))


def test_an_upload_beyond_the_limit_is_413(run: StreamerProcess) -> None:
    answer = httpx.post(f"{run.http}/api/v1/csv/upload", files={"file": ("up.csv", b"x" * 200_000)})
    assert answer.status_code == 413
