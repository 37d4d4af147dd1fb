"""Measures the proxy on this machine, over a broker of its own.

    python bench/proxy.py [--quick] [--json FILE]

Broker, proxy and load run in processes of their own; acks=all and fsync before the acknowledgement
throughout. `wrk` (Debian's package) makes the load that produces, bench/proxy_consumers.py the one
that consumes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
from confluent_kafka import Producer

from nexus.bench.broker_cost import usage_of
from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save

_READY = re.compile(r"proxy ready on (\S+)")
_DONE = re.compile(r"(\d+) requests in")
_BAD = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_POST = """
wrk.method = "POST"
wrk.body = {body}
wrk.headers["Content-Type"] = "application/json"
"""
BATCH = 5_000
_SMALL = {"payload": {"gpu": "GPU-5fd4", "value": 85.0}}
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

    def cpu_seconds(self) -> float:
        """What it has spent so far."""
        spent = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")

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


class Costs:
    """What proxy, broker and load generator spend, each for itself."""

    def __init__(self, proxy: LocalProxy, broker: LocalBroker) -> None:
        self._proxy, self._broker = proxy, broker
        self._before = self._now()

    def of(self, messages: int, generator_seconds: float | None = None) -> str:
        """Microseconds of CPU for each message since the beginning."""
        spent = [b - a for a, b in zip(self._before, self._now(), strict=True)]
        spent[2] = spent[2] if generator_seconds is None else generator_seconds
        proxy, broker, load = (one * 1e6 / max(messages, 1) for one in spent)
        return f"CPU µs each: proxy {proxy:.1f}, broker {broker:.1f}, load {load:.1f}"

    def _now(self) -> tuple[float, float, float]:
        usage = usage_of(self._broker.http)
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        broker = usage.cpu_seconds if usage else 0.0
        return self._proxy.cpu_seconds(), broker, ours.ru_utime + ours.ru_stime


def wrk(script: str, url: str, connections: int, seconds: int) -> tuple[int, float, str]:
    """Requests that were answered, in how many seconds, and whether some failed."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", file.name, url]
        began = time.perf_counter()
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        took = time.perf_counter() - began
    done, bad = _DONE.search(said), _BAD.search(said)
    failed = f", {bad[1]} failed" if bad else ""
    return int(done[1]) if done else 0, took, failed


def singles(proxy: LocalProxy, broker: LocalBroker, seconds: int) -> Figure:
    """64 connections, a message in each request."""
    costs = Costs(proxy, broker)
    body = json.dumps(_SMALL)
    url = f"{proxy.url}/produce?topic=singles"
    count, took, failed = wrk(_POST.format(body=f"[[{body}]]"), url, 64, seconds)
    value = f"{count / took:,.0f}/s{failed}; {costs.of(count)}"
    return Figure("single produces, 64 connections", value, ">= 3,000/s")


def batches(proxy: LocalProxy, broker: LocalBroker, seconds: int) -> Figure:
    """Four connections, 5,000 messages in each request."""
    with tempfile.NamedTemporaryFile("w") as body:
        json.dump([_MESSAGE] * BATCH, body)
        body.flush()
        script = _POST.format(body=f'io.open("{body.name}"):read("*a")')
        costs = Costs(proxy, broker)
        url = f"{proxy.url}/produce/batch?topic=batch"
        count, took, failed = wrk(script, url, 4, seconds)
    value = f"{count * BATCH / took:,.0f} messages/s{failed}; {costs.of(count * BATCH)}"
    return Figure(f"batch produce, {BATCH:,} a request", value, ">= 100,000/s")


def delivery(proxy: LocalProxy, broker: LocalBroker, count: int, at_once: int) -> Figure:
    """One group, ten consumers."""
    topic = f"queue-{at_once}"
    for _ in range(0, count, BATCH):
        body = [_MESSAGE] * BATCH
        httpx.post(f"{proxy.url}/produce/batch?topic={topic}", json=body, timeout=60)
    host, _, port = proxy.url.rpartition("/")[2].partition(":")
    consumers = Path(__file__).with_name("proxy_consumers.py")
    words = [sys.executable, str(consumers), host, port, "--topic", topic, "--group", "g"]
    costs = Costs(proxy, broker)
    done = subprocess.run(
        [*words, "--messages", str(count), "--at-once", str(at_once)],
        capture_output=True,
        check=True,
    )
    said = json.loads(done.stdout)
    rate = said["messages"] / said["seconds"]
    value = f"{rate:,.0f} messages/s; {costs.of(said['messages'], said['cpu_seconds'])}"
    if at_once == 1:
        return Figure("the same, a request for each ack", value, "")
    return Figure("SSE delivery, 10 consumers, with acks", value, ">= 10,000/s")


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
                if shutil.which("wrk") is not None:
                    figures.append(singles(proxy, broker, seconds))
                    figures.append(batches(proxy, broker, seconds))
                figures.append(delivery(proxy, broker, count, 1_000))
                figures.append(delivery(proxy, broker, count // 5, 1))
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
