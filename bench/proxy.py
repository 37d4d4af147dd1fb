"""Measures the proxy on this machine, over a broker of its own.

    python bench/proxy.py [--quick] [--json FILE]

Broker, proxy and load run in processes of their own; acks=all and fsync before the acknowledgement
throughout. `wrk` (Debian's package) makes the load of single messages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer

from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save

_READY = re.compile(r"proxy ready on (\S+)")
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_BAD = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_SCRIPT = """
wrk.method = "POST"
wrk.body = '{"payload":{"gpu":"GPU-5fd4","value":85.0}}'
wrk.headers["Content-Type"] = "application/json"
"""
_MESSAGE = {"payload": {"gpu": "GPU-5fd4f087", "metric": "DCGM_FI_DEV_GPU_UTIL", "value": 85.0}}


class LocalProxy:
    """A proxy in a process of its own."""

    def __init__(self, brokers: str) -> None:
        words = [sys.executable, "-m", "nexus", "proxy", "--brokers", brokers, "--port", "0"]
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        found = _READY.search(self._process.stdout.readline())
        assert found, "the proxy did not start"
        self.url = found[1]

    def __enter__(self) -> LocalProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def megabytes(self) -> float:
        """The memory it holds now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


def overhead(proxy: LocalProxy, broker: LocalBroker, count: int) -> Figure:
    """One message after the other, through the proxy and by a direct client, in turn."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
    direct, through = [], []
    with httpx.Client(base_url=proxy.url) as client:
        for number in range(count + 20):
            began = time.perf_counter()
            producer.produce("direct", b'{"gpu":"GPU-5fd4","value":85.0}')
            producer.flush(10)
            between = time.perf_counter()
            answer = client.post("/produce?topic=through", json=_MESSAGE)
            ended = time.perf_counter()
            assert answer.status_code == 200, answer.text
            if number >= 20:
                direct.append(between - began)
                through.append(ended - between)
    ours, theirs = statistics.median(through) * 1000, statistics.median(direct) * 1000
    value = f"{ours - theirs:+.2f} ms ({ours:.2f} against {theirs:.2f})"
    return Figure("overhead on a single produce, p50 (httpx included)", value, "< 2 ms")


def singles(proxy: LocalProxy, seconds: int) -> Figure:
    """wrk with 64 connections."""
    name = "single produces, 64 connections"
    if shutil.which("wrk") is None:
        return Figure(name, "wrk is not installed", ">= 3,000/s")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT)
        script.flush()
        words = ["wrk", "-t1", "-c64", f"-d{seconds}s", "-s", script.name]
        url = f"{proxy.url}/produce?topic=singles"
        said = subprocess.run([*words, url], capture_output=True, text=True, check=True).stdout
    rate, bad = _RATE.search(said), _BAD.search(said)
    failed = f", {bad[1]} failed" if bad else ""
    return Figure(name, f"{float(rate[1]) if rate else 0:,.0f}/s{failed}", ">= 3,000/s")


def batches(proxy: LocalProxy, seconds: int) -> Figure:
    """Two clients, 5,000 messages a request."""
    body = json.dumps([_MESSAGE] * 5_000).encode()
    headers = {"content-type": "application/json"}
    stop_at = time.perf_counter() + seconds

    def send(_: int) -> int:
        sent = 0
        with httpx.Client(base_url=proxy.url, timeout=60) as client:
            while time.perf_counter() < stop_at:
                answer = client.post("/produce/batch?topic=batch", content=body, headers=headers)
                assert answer.status_code == 200, answer.text
                sent += 5_000
        return sent

    began = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        total = sum(pool.map(send, range(2)))
    rate = total / (time.perf_counter() - began)
    return Figure("batch produce, 5,000 a request", f"{rate:,.0f} messages/s", ">= 100,000/s")


def delivery(proxy: LocalProxy, count: int) -> Figure:
    """One group, ten consumers, acknowledging in hundreds."""
    for _ in range(0, count, 10_000):
        body = [_MESSAGE] * 10_000
        httpx.post(f"{proxy.url}/produce/batch?topic=queue", json=body, timeout=60)
    seen: list[int] = []
    stop = threading.Event()

    def take() -> None:
        params: dict[str, Any] = {"topic": "queue", "group": "g", "max_in_flight": 1_000}
        ids: list[str] = []
        with (
            httpx.Client(base_url=proxy.url, timeout=60) as acks,
            httpx.stream("GET", f"{proxy.url}/consume", params=params, timeout=60) as stream,
        ):
            for line in stream.iter_lines():
                if stop.is_set():
                    return
                if line.startswith("id: "):
                    ids.append(line[4:])
                if len(ids) >= 100:
                    acks.post("/ack?topic=queue&group=g", json={"ids": ids})
                    seen.append(len(ids))
                    ids = []

    began = time.perf_counter()
    for _ in range(10):
        threading.Thread(target=take, daemon=True).start()
    while sum(seen) < count * 0.9 and time.perf_counter() < began + 120:
        time.sleep(0.05)
    rate = sum(seen) / (time.perf_counter() - began)
    stop.set()
    return Figure("SSE delivery, 10 consumers, with acks", f"{rate:,.0f} messages/s", ">= 10,000/s")


def memory(proxy: LocalProxy, consumers: int, goal: str) -> Figure:
    """Streams that wait."""
    with ExitStack() as stack:
        limits = httpx.Limits(max_connections=None)
        client = stack.enter_context(httpx.Client(base_url=proxy.url, limits=limits, timeout=60))
        for _ in range(consumers):
            stack.enter_context(client.stream("GET", "/consume?topic=idle&group=g"))
        time.sleep(2)
        value = f"{proxy.megabytes():.0f} MB"
    return Figure(f"memory with {consumers:,} SSE consumers", value, goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seconds, count = (3, 20_000) if options.quick else (15, 200_000)
    folder = Path(tempfile.mkdtemp(prefix="nexus-bench-", dir=os.environ.get("NEXUS_BENCH_DIR")))
    setting = machine(folder)
    print(setting)
    figures: list[Figure] = []
    try:
        with LocalBroker(folder / "broker") as broker:
            with LocalProxy(broker.bootstrap) as proxy:
                figures.append(overhead(proxy, broker, 200 if options.quick else 2_000))
                figures.append(singles(proxy, seconds))
                figures.append(batches(proxy, seconds))
                figures.append(delivery(proxy, count))
            with LocalProxy(broker.bootstrap) as proxy:
                figures.append(memory(proxy, 100, "< 128 MB"))
                figures.append(memory(proxy, 1_000, "< 300 MB"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_table(figures)
    if options.json:
        save(options.json, setting, figures)


if __name__ == "__main__":
    main()
