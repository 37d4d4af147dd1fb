"""A gateway in a process of its own: its start, its end, its clients."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nexus.cli.entry import run
from support.broker import NEXUS, BrokerProcess
from support.gateways import GatewayProcess, statuses, store_readings
from support.published import json_messages, publish
from support.readings import fleet, readings
from support.streamers import queue_of

CLIENTS = 200
MakeGateway = Callable[..., GatewayProcess]


@pytest.fixture
def make_gateway(tmp_path: Path) -> Iterator[MakeGateway]:
    made: list[GatewayProcess] = []

    def make(*flags: str, **options: Any) -> GatewayProcess:
        store = options.pop("store", tmp_path / "tables")
        process = GatewayProcess(tmp_path / f"gateway-{len(made)}", store, flags, **options)
        made.append(process)
        return process.start()

    yield make
    for process in made:
        process.kill()


def moments(start_us: int, count: int, uuid: str = "GPU-00000001") -> list[dict[str, object]]:
    return [
        {"uuid": uuid, "hostname": "h1", "gpu": "0", "timestamp": start_us + n * 1_000_000}
        for n in range(count)
    ]


def test_it_starts_before_there_is_anything_and_ends_with_success(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    gateway = make_gateway()
    assert gateway.get("/health").json()["status"] == "ok"
    assert gateway.get("/ready").json() == {"status": "ready", "tables": {}}
    for path in ("gpus", "telemetry", "telemetry/latest", "telemetry/summary", "clusters"):
        assert gateway.get(f"/api/v1/{path}").json()["data"] == []
    now_us = time.time_ns() // 1000
    store_readings(tmp_path / "tables", readings(*moments(now_us - 5_000_000, 3)))
    deadline = time.monotonic() + 10
    while not gateway.get("/api/v1/gpus").json()["data"]:
        assert time.monotonic() < deadline, "the first commit was never seen"
    assert gateway.get("/api/v1/telemetry", resolution="raw").json()["count"] == 3
    assert gateway.get("/api/v1/pipeline").json()["collector"]["reachable"] is False
    assert gateway.stop() == 0
    assert gateway.stdout.count("\n") == 1
    assert "Traceback" not in gateway.stderr


def test_a_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = [str(NEXUS), "gateway", "--port", str(port), "--store", f"delta://{tmp_path}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"nexus: port {port} is taken; give --port another one\n"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--store", "mongodb://x"], "mongodb"),
        (["--queue", "amqp://x"], "amqp"),
        (["--port", "99999"], "flag --port: gateway.port"),
        (["--host", "256.0.0.1", "--port", "0"], "cannot listen on 256.0.0.1"),
    ],
)
def test_a_wrong_call_is_one_clear_line(
    tmp_path: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["gateway", "--port", "0", "--store", f"delta://{tmp_path}", *flags]) in (1, 2)
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1


def test_being_open_to_the_network_is_said(make_gateway: MakeGateway) -> None:
    gateway = make_gateway("--host", "0.0.0.0")
    assert gateway.stop(signal.SIGINT) == 0
    assert "asks nobody for a password" in gateway.stderr
    assert "http://0.0.0.0:" in gateway.stdout


def test_what_is_no_http_gets_a_problem_too(make_gateway: MakeGateway) -> None:
    gateway = make_gateway()
    host, port = gateway.url.removeprefix("http://").split(":")
    for sent in (b"\x16\x03\x01 hello\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(sent)
            answer = b"".join(iter(lambda: client.recv(65_536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["status"] == 400
    assert gateway.get("/health").status_code == 200


def test_live_readings_come_and_an_end_does_not_wait_for_clients(
    make_gateway: MakeGateway, broker: BrokerProcess, topic: str
) -> None:
    gateway = make_gateway("--queue", queue_of(broker, topic))
    assert gateway.get("/api/v1/queue").json()["reachable"] is True
    head = httpx.head(gateway.url + "/api/v1/live", timeout=10)
    assert head.headers["content-type"].startswith("text/event-stream")
    query = {"metric": "DCGM_FI_DEV_GPU_TEMP", "hostname": "h1"}
    with httpx.stream("GET", gateway.url + "/api/v1/live", params=query, timeout=20) as stream:
        assert stream.status_code == 200
        assert stream.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in stream.headers["content-security-policy"]
        lines = stream.iter_lines()
        _until(lines, "event: status")
        now_us = time.time_ns() // 1000
        rows = [*moments(now_us, 1), *moments(now_us, 1, "GPU-00000002")]
        other = {**moments(now_us, 1)[0], "hostname": "h2"}
        publish(broker.bootstrap, topic, json_messages(readings(*rows, other)))
        seen: list[str] = []
        while len(seen) < 2:
            _until(lines, "event: readings")
            data = json.loads(_until(lines, "data: ").removeprefix("data: "))
            assert set(data["hostname"]) == {"h1"}
            assert set(data["metric"]) == {"gpu_temperature"}
            seen += data["uuid"]
        assert sorted(seen) == ["GPU-00000001", "GPU-00000002"]
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 30
        for _ in lines:  # the stream ends in good order
            pass
    assert "Traceback" not in gateway.stderr


def _until(lines: Iterator[str], start: str) -> str:
    return next(line for line in lines if line.startswith(start))


def test_pages_stay_whole_while_readings_arrive(make_gateway: MakeGateway, tmp_path: Path) -> None:
    start_us = (time.time_ns() // 1_000_000_000 - 1000) * 1_000_000
    tables = tmp_path / "tables"
    store_readings(tables, readings(*moments(start_us, 300)))
    gateway = make_gateway()
    asked = {"resolution": "raw", "limit": 50, "start_time": "now-1h", "metric": "gpu_temperature"}
    for order in ("asc", "desc"):
        seen: list[str] = []
        cursor: str | None = ""
        pages = 0
        while cursor is not None:
            params = {**asked, "order": order, "cursor": cursor}
            page = gateway.get("/api/v1/telemetry", **params).json()
            seen += [row["timestamp"] for row in page["data"] if row["uuid"] == "GPU-00000001"]
            cursor = page["next_cursor"]
            pages += 1
            if pages <= 3:  # older and newer ones, between, before and behind
                late = moments(start_us - 60_000_000 * pages, 5, f"GPU-late-{order}-{pages}")
                later = moments(start_us + 290_500_000, 5, f"GPU-later-{order}-{pages}")
                store_readings(tables, readings(*late, *later))
        assert len(seen) == len(set(seen)) == 300
        assert seen == sorted(seen, reverse=order == "desc")


def test_200_clients_at_once_all_get_their_answers(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    store_readings(tmp_path / "tables", fleet(5000, gpus=16))
    # However slow the machine is: here it is about how many come at once.
    gateway = make_gateway(environ={"NEXUS_GATEWAY_TIMEOUT": "100s"})
    uuid = gateway.get("/api/v1/gpus", limit=1).json()["data"][0]["uuid"]
    span = "start_time=2025-07-18T12:00:00Z&end_time=2025-07-18T13:00:00Z"
    paths = [
        f"/api/v1/gpus/{uuid}/telemetry?{span}&resolution=raw",
        f"/api/v1/gpus/{uuid}/telemetry?{span}&layout=columns&resolution=1m",
        "/api/v1/telemetry/latest?limit=100",
        "/api/v1/gpus",
        "/api/v1/clusters",
    ]

    async def client(number: int) -> list[int]:
        return await asyncio.wait_for(statuses(gateway.url, [paths[number % len(paths)]]), 90)

    async def all_of_them() -> list[list[int]]:
        return await asyncio.gather(*(client(number) for number in range(CLIENTS)))

    answers = asyncio.run(all_of_them())
    assert [status for each in answers for status in each] == [200] * CLIENTS
    assert gateway.stop() == 0
    assert "Traceback" not in gateway.stderr
