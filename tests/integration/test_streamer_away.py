"""While the queue is away readings wait in the spool; when it is back they arrive in order."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from support.broker import BrokerProcess
from support.fixtures import MakeBroker
from support.ports import free_port
from support.streamers import StreamerProcess, queue_of, readings_in, write_csv
from support.waiting import wait_until

QUICK = {"NEXUS_STREAMER_AWAY_AFTER": "300ms"}


def streamer(broker: BrokerProcess, name: str, tmp_path: Path, rows: int) -> StreamerProcess:
    source = f"csv://{write_csv(tmp_path / 'a.csv', rows)}"
    return StreamerProcess(tmp_path / "s", queue_of(broker, name), source, environ=QUICK)


def in_order(broker: BrokerProcess, name: str, rows: int) -> bool:
    table = readings_in(broker.bootstrap, name)
    assert sorted(table.column("source_value").to_pylist()) == list(range(rows))
    by_gpu: dict[str, list[float]] = {}
    for uuid, value in zip(
        table.column("uuid").to_pylist(), table.column("source_value").to_pylist(), strict=True
    ):
        by_gpu.setdefault(uuid, []).append(value)
    return all(values == sorted(values) for values in by_gpu.values())


def test_a_streamer_can_start_before_its_queue(
    make_broker: MakeBroker, name: str, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path / "late", port=free_port())
    run = streamer(broker, name, tmp_path, 5000).start()
    try:
        wait_until(lambda: run.status()["queue"] == "away", what="the queue is away")
        assert run.get("/health")[0] == 503
        wait_until(lambda: run.status()["spool_bytes"] > 0, what="a spool")
        broker.start()
        assert run.wait() == 0, run.stderr
        assert in_order(broker, name, 5000)
    finally:
        run.kill()
        broker.kill()


def test_what_waits_in_the_spool_survives_a_stop_and_is_said(name: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "late", port=free_port())
    run = streamer(broker, name, tmp_path, 5000).start()
    try:
        wait_until(lambda: run.status()["readings"]["spooled"] == 5000, what="all in the spool")
        assert run.stop(signal.SIGTERM) == 1
        assert "5,000 readings are not acknowledged yet" in run.stdout
        (checkpoint,) = (tmp_path / "s" / "state").glob("*/checkpoint.json")
        assert json.loads(checkpoint.read_text())["streams"], "the file is done with"
        broker.start()
        assert run.run() == 0, run.stderr
        assert in_order(broker, name, 5000)
    finally:
        run.kill()
        broker.kill()
