"""Measures the broker on this machine: each figure that docs/performance.md states.

    python bench/broker.py [--quick] [--json FILE]

Brokers, clients and a server that discards run in processes of their own, one measurement after
the other. The figures depend on the machine and on what else it does; ratios travel better.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from nexus.bench import clients
from nexus.bench.append import append_rate, fill
from nexus.bench.broker_cost import cpu_us_per_message, usage_of
from nexus.bench.discard_process import discard_server
from nexus.bench.idle import idle_connections
from nexus.bench.latency import LatencySetting, measure
from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save

GB = 1 << 30
PARTITIONS = 100


@dataclass(frozen=True)
class Scale:
    """How much to do: enough for steady figures, or just enough to see that it runs."""

    messages: int
    repeats: int
    log_bytes: int
    connections: int
    seconds: float


FULL = Scale(messages=2_000_000, repeats=3, log_bytes=10 * GB, connections=10_000, seconds=15)
QUICK = Scale(messages=200_000, repeats=1, log_bytes=GB // 4, connections=500, seconds=3)


def make_topic(broker: LocalBroker, name: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    return name


def produce(bootstrap: str, topic: str, messages: int) -> float:
    """Messages a second of one producer with librdkafka's default batching, acks=all."""
    sent: clients.Sent
    (sent,) = clients.in_processes(clients.produce, [clients.Load(bootstrap, topic, messages)])
    return sent.messages / sent.seconds


def consume(broker: LocalBroker, topic: str, partitions: int) -> clients.Received:
    total = sum(clients.ends(broker.bootstrap, topic, partitions))
    read = clients.Read(broker.bootstrap, topic, tuple(range(partitions)), total)
    received: clients.Received
    (received,) = clients.in_processes(clients.consume, [read])
    return received


def throughput(data: Path, scale: Scale) -> list[Figure]:
    """Interleaved, so that a noisy neighbour disturbs both sides alike."""
    ours, ceiling, cpu, fetch_cpu, fetch_rate = [], [], [], [], []
    with LocalBroker(data / "throughput") as broker, discard_server(12) as (discard, topic):
        for number in range(scale.repeats):
            ceiling.append(produce(discard, topic, scale.messages))
            name = make_topic(broker, f"t{number}", 12)
            before = usage_of(broker.http)
            ours.append(produce(broker.bootstrap, name, scale.messages))
            after = usage_of(broker.http)
            cpu.append(cpu_us_per_message(before, after, scale.messages) or 0)
            received = consume(broker, name, 12)
            fetch_cpu.append(
                cpu_us_per_message(after, usage_of(broker.http), received.messages) or 0
            )
            fetch_rate.append(received.messages / received.seconds)
        memory = usage_of(broker.http)
    best, limit = statistics.median(ours), statistics.median(ceiling)
    volume = scale.messages * 200 * scale.repeats / GB
    return [
        Figure(
            "broker CPU, produce acks=all", f"{statistics.median(cpu):.2f} us/message", "<= 1.0"
        ),
        Figure("broker CPU, fetch", f"{statistics.median(fetch_cpu):.2f} us/message", "<= 0.5"),
        Figure("produce, one client", f"{best:,.0f}/s", "> 300,000/s"),
        Figure("the client against a server that discards", f"{limit:,.0f}/s", ""),
        Figure("ratio of the two", f"{best / limit:.2f}", ">= 0.90"),
        Figure("consume, one client", f"{statistics.median(fetch_rate):,.0f}/s", ""),
        Figure(
            f"memory after {volume:.1f} GB in and out",
            f"{(memory.resident_bytes if memory else 0) / 1e6:.0f} MB",
            "< 100 MB",
        ),
    ]


def appends(data: Path, scale: Scale) -> list[Figure]:
    rate = statistics.median(append_rate(data) for _ in range(scale.repeats))
    return [Figure("append in the process, batches of 500", f"{rate:,.0f}/s", ">= 1,000,000/s")]


def latencies(data: Path, scale: Scale) -> list[Figure]:
    figures = []
    with LocalBroker(data / "interval", "--fsync", "interval") as broker:
        topic = make_topic(broker, "latency", 1)
        took = measure(LatencySetting(broker.bootstrap, topic, 1, seconds=scale.seconds))
        figures.append(
            Figure(
                "latency at 5,000/s, fsync interval, p50 / p99",
                f"{took.p50_ms:.2f} / {took.p99_ms:.2f} ms",
                "< 1 / < 10 ms",
            )
        )
    with LocalBroker(data / "commit") as broker:
        topic = make_topic(broker, "latency", 12)
        took = measure(
            LatencySetting(
                broker.bootstrap, topic, 12, seconds=scale.seconds, producers=4, disk=data
            )
        )
        disk = took.disk
        assert disk is not None
        figures += [
            Figure(
                "the disk's own fsync meanwhile, p50 / p99",
                f"{disk.p50_ms:.2f} / {disk.p99_ms:.2f} ms",
                "",
            ),
            Figure(
                "same, fsync commit, 12 partitions, 4 producers, p50 / p99",
                f"{took.p50_ms:.2f} / {took.p99_ms:.2f} ms",
                f"p99 <= 4 x fsync p99 ({4 * disk.p99_ms:.2f} ms)",
            ),
        ]
    return figures


def connections(data: Path, scale: Scale) -> list[Figure]:
    room = f"performance.max_connections={scale.connections + 100}"
    with LocalBroker(data / "idle", "--set", room) as broker:
        produce(broker.bootstrap, make_topic(broker, "warm", 12), scale.messages // 4)
        alone = produce(broker.bootstrap, make_topic(broker, "alone", 12), scale.messages)
        with idle_connections(broker.bootstrap, scale.connections) as held:
            with_idle = produce(broker.bootstrap, make_topic(broker, "busy", 12), scale.messages)
            memory = usage_of(broker.http)
    return [
        Figure(f"{scale.connections:,} idle connections: held", f"{held:,}", "all"),
        Figure(
            "memory then", f"{(memory.resident_bytes if memory else 0) / 1e6:.0f} MB", "< 500 MB"
        ),
        Figure("produce rate against none", f"{with_idle / alone:.2f}", ">= 0.80"),
    ]


def starts(data: Path, scale: Scale) -> list[Figure]:
    gigabytes = f"{scale.log_bytes / GB:.2g} GB"
    empty_dir, large_dir = data / "start-empty", data / "start-large"
    fill(empty_dir, "t", PARTITIONS, 0)
    empty = statistics.median(_start(empty_dir) for _ in range(scale.repeats))
    fill(large_dir, "t", PARTITIONS, scale.log_bytes)
    clean = statistics.median(_start(large_dir) for _ in range(scale.repeats))
    killed = statistics.median(_start_after_kill(large_dir, scale) for _ in range(scale.repeats))
    return [
        Figure(f"start to ready, {PARTITIONS} partitions, empty", f"{empty:.2f} s", "< 0.7 s"),
        Figure(f"same, {gigabytes} after a clean stop", f"{clean:.2f} s", "< 1 s"),
        Figure(f"same, {gigabytes} after kill -9", f"{killed:.2f} s", "< 5 s"),
        *_cost_of_history(data, scale, large_dir, gigabytes),
    ]


def _start(directory: Path) -> float:
    with LocalBroker(directory) as broker:
        return broker.ready_seconds


def _start_after_kill(directory: Path, scale: Scale) -> float:
    broker = LocalBroker(directory)
    produce(broker.bootstrap, "t", scale.messages)
    broker.kill()
    return _start(directory)


def _cost_of_history(data: Path, scale: Scale, large: Path, gigabytes: str) -> list[Figure]:
    """CPU for a message on a large log and on an empty one, interleaved."""
    fill(data / "short", "t", PARTITIONS, 0)
    produced: dict[str, list[float]] = {"long": [], "short": []}
    fetched: dict[str, list[float]] = {"long": [], "short": []}
    everywhere = tuple(range(PARTITIONS))
    with LocalBroker(large) as long, LocalBroker(data / "short") as short:
        for number in range(2 * scale.repeats):
            # Each is the first of the two half of the time: the machine tires as it goes.
            pair = [("long", long), ("short", short)]
            for name, broker in pair if number % 2 else reversed(pair):
                start = clients.ends(broker.bootstrap, "t", PARTITIONS)
                before = usage_of(broker.http)
                produce(broker.bootstrap, "t", scale.messages)
                after = usage_of(broker.http)
                produced[name].append(cpu_us_per_message(before, after, scale.messages) or 0)
                read = clients.Read(broker.bootstrap, "t", everywhere, scale.messages, start)
                clients.in_processes(clients.consume, [read])
                done = usage_of(broker.http)
                fetched[name].append(cpu_us_per_message(after, done, scale.messages) or 0)
    ratios = [sum(costs["long"]) / max(sum(costs["short"]), 1e-9) for costs in (produced, fetched)]
    return [
        Figure(
            f"CPU with {gigabytes} against an empty log, produce / fetch",
            f"{ratios[0]:.2f} / {ratios[1]:.2f}",
            "<= 1.10",
        )
    ]


PARTS: dict[str, Callable[[Path, Scale], list[Figure]]] = {
    "throughput": throughput,
    "append": appends,
    "latency": latencies,
    "connections": connections,
    "start": starts,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this part")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    data = Path(tempfile.mkdtemp(prefix="nexus-bench-", dir=options.data))
    setting = machine(data)
    print(setting)
    figures: list[Figure] = []
    try:
        for name in options.only or PARTS:
            began = time.perf_counter()
            print(f"measuring {name} ...", end=" ", flush=True, file=sys.stderr)
            figures += PARTS[name](data, scale)
            print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    print_table(figures)
    if options.json:
        save(options.json, setting, figures)


if __name__ == "__main__":
    main()
