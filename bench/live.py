"""Measures the live stream on this machine: from a broker's acknowledgement to clients' events.

    python bench/live.py [--seconds N] [--json FILE]

Broker and sender run in processes of their own; hub and clients share this one, whose CPU time is
what is told. Every message has a time of its own, by which its event is known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save
from nexus.gateway.live.hub import LiveHub
from nexus.observe.metrics import Registry
from nexus.store.port import Selection
from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.render import Renderer
from nexus.telemetry.arrow_codec import encode_arrow
from nexus.telemetry.codec import ARROW_TYPE
from nexus.telemetry.reading import TIMESTAMP

TOPIC = "gpu-telemetry"
PARTITIONS = 12
METRICS = 10
GPUS = 8  # of a host


@dataclass(frozen=True)
class Case:
    """A fleet that is scraped every second, how it is sent, and who looks on."""

    name: str
    hosts: int
    messages: int  # a second, one after the other
    clients: int
    mixed: bool  # filters of all kinds, or everything for everyone
    interval_s: float = 0.0


CASES = (
    Case("32 GPUs, 4 messages/s, 10 clients", 4, 4, 10, mixed=True),
    Case("8,000 GPUs, 12 messages/s, 10 clients, no filters", 1000, 12, 10, mixed=False),
    Case("8,000 GPUs, 12 messages/s, 10 clients, filters", 1000, 12, 10, mixed=True),
    Case("8,000 GPUs, 12 messages/s, 10 clients, 1 s", 1000, 12, 10, mixed=False, interval_s=1.0),
    Case("8,000 GPUs, 100 messages/s, 10 clients, no filters", 1000, 100, 10, mixed=False),
)


@dataclass
class Seen:
    """What one client was given; only the first one keeps its events."""

    size: int = 0
    events: list[tuple[float, bytes]] = field(default_factory=list)


def fleet(hosts: int) -> pa.Table:
    """One scrape, GPU by GPU."""
    config = SimulatorConfig(hosts=hosts, gpus=GPUS, seed=1, interval_ms=1000)
    simulation = Simulation(config)
    table = Renderer(simulation).table(simulation.advance(1))
    names = pa.array(table["source_metric"].unique().to_pylist()[:METRICS])
    table = table.filter(pc.is_in(table["source_metric"], value_set=names))
    uuids = pa.table({"uuid": table["uuid"].cast(pa.string())})
    return table.take(pc.sort_indices(uuids, sort_keys=[("uuid", "ascending")]))


def encoded(table: pa.Table, case: Case, seconds: int) -> list[tuple[float, int, bytes]]:
    """Messages: when to send each, the time in it by which it is known, and its bytes."""
    first_ms = time.time_ns() // 1_000_000
    rows = -(-table.num_rows // case.messages)
    made = []
    for number in range(seconds * case.messages):
        second, part = divmod(number, case.messages)
        share = table.slice(part * rows, rows)
        stamp = first_ms + second * 1000 + part
        times = pa.repeat(pa.scalar(stamp * 1000, TIMESTAMP), share.num_rows)
        share = share.set_column(share.schema.get_field_index("timestamp"), "timestamp", times)
        value = encode_arrow(share.append_column("ingested", times))
        made.append((number / case.messages, stamp, value))
    return made


def send(bootstrap: str, case: Case, seconds: int) -> None:
    """The sender's process: makes its messages, waits for a line, sends, says what it was told."""
    messages = encoded(fleet(case.hosts), case, seconds)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all"})
    acknowledged: dict[int, float] = {}
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.time()
    for number, (due, stamp, value) in enumerate(messages):
        while (left := begun + due - time.time()) > 0:
            producer.poll(min(left, 0.002))

        def told(_: object, __: object, stamp: int = stamp) -> None:
            acknowledged[stamp] = time.time()

        headers: Any = [("content-type", ARROW_TYPE.encode())]
        producer.produce(TOPIC, value, None, number % PARTITIONS, told, headers=headers)
    producer.flush(30)
    print(json.dumps(acknowledged), flush=True)


def selections(table: pa.Table, case: Case) -> list[Selection]:
    if not case.mixed:
        return [Selection()] * case.clients
    uuids, hosts = (table[name].unique().to_pylist() for name in ("uuid", "hostname"))
    kinds = [
        lambda n: Selection(),
        lambda n: Selection(metrics=("gpu_util",)),
        lambda n: Selection(uuids=(uuids[n],)),
        lambda n: Selection(hostnames=(hosts[n % len(hosts)],)),
    ]
    return [kinds[n % len(kinds)](n) for n in range(case.clients)]


async def look_on(events: AsyncIterator[bytes], seen: Seen, *, keep: bool) -> None:
    async for event in events:
        seen.size += len(event)
        if keep:
            seen.events.append((time.time(), event))


async def watched(
    bootstrap: str, case: Case, seconds: int, sender: subprocess.Popen[str]
) -> tuple[list[Seen], float, Registry]:
    """What the clients saw while the sender sent, and the CPU time that it took."""
    registry = Registry()
    hub = LiveHub(f"kafka://{bootstrap}/{TOPIC}", registry=registry)
    await hub.start()
    seen = [Seen() for _ in range(case.clients)]
    tasks = []
    for number, which in enumerate(selections(fleet(case.hosts), case)):
        events = await hub.subscribe(which, interval_s=case.interval_s)
        tasks.append(asyncio.create_task(look_on(events, seen[number], keep=number == 0)))
    await asyncio.sleep(1.5)
    begun = time.process_time()
    assert sender.stdin is not None
    sender.stdin.write("go\n")
    sender.stdin.flush()
    await asyncio.sleep(seconds + 1.5)
    spent = time.process_time() - begun
    await hub.stop()
    await asyncio.gather(*tasks)
    return seen, spent, registry


def lateness_ms(seen: Seen, acknowledged: dict[int, float]) -> list[float]:
    """Of each message, how long after its acknowledgement the last of it was given."""
    last: dict[int, float] = {}
    for at, event in seen.events:
        if event.startswith(b"event: readings"):
            stamps = json.loads(event[event.index(b"data: ") + 6 :])["timestamp"]
            last |= dict.fromkeys(stamps, at)
    return sorted((at - acknowledged[stamp]) * 1000 for stamp, at in last.items())


def measured(bootstrap: str, number: int, seconds: int) -> list[Figure]:
    case = CASES[number]
    command = [sys.executable, __file__, "--seconds", str(seconds)]
    sender = subprocess.Popen(
        [*command, "--send", bootstrap, "--case", str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sender.stdout is not None
    sender.stdout.readline()
    seen, spent, registry = asyncio.run(watched(bootstrap, case, seconds, sender))
    told = {int(stamp): at for stamp, at in json.loads(sender.stdout.readline()).items()}
    sender.communicate()
    late = lateness_ms(seen[0], told)
    lost = len(told) - len(late) if not case.interval_s else 0
    (skipped,) = registry.values("nexus_gateway_live_messages_skipped").values()
    size = sum(one.size for one in seen) / seconds / 1e6
    values = (
        f"p50 {late[len(late) // 2]:.0f} ms, p95 {late[int(len(late) * 0.95)]:.0f} ms;"
        f" CPU {spent / seconds:.0%} of a core; {size:.0f} MB/s out;"
        f" {lost} not seen, {skipped} skipped"
    )
    goal = "an interval late" if case.interval_s else "p95 100 ms"
    return [Figure(case.name, values, goal)]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--case", type=int, default=-1, help="Only this one, counted from 0.")
    asked = parser.parse_args(arguments)
    if asked.send:
        send(asked.send, CASES[asked.case], asked.seconds)
        return
    with tempfile.TemporaryDirectory() as place, LocalBroker(Path(place)) as broker:
        setting = machine(Path(place))
        print(setting)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
        numbers = range(len(CASES)) if asked.case < 0 else [asked.case]
        figures = [f for n in numbers for f in measured(broker.bootstrap, n, asked.seconds)]
    print_table(figures)
    if asked.json:
        save(asked.json, setting, figures)


if __name__ == "__main__":
    main(sys.argv[1:])
