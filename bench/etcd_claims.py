"""Measures claim workers on a queue in etcd: published, claimed, decoded, acknowledged and stored.

    python bench/etcd_claims.py [--quick] [--workers N] [--json FILE]

One etcd member, one publisher and one worker, each in a process of its own, all at the same time.
Every message of 300 bytes becomes a key in etcd, put in the transaction that takes the message out
of the queue. The time is from the first publish to the last acknowledgement.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from nexus.bench.local_etcd import LocalEtcd
from nexus.bench.report import Figure, machine, print_table, save
from nexus.etcd import Keys, Put
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueFull
from nexus.queue.etcd.claims import ClaimOptions
from nexus.queue.etcd.counts import Totals, totals
from nexus.queue.etcd.hands import Claimed
from nexus.queue.etcd.worker import Worker
from nexus.queue.opening import open_publisher
from nexus.queue.port import Message, Publisher
from nexus.queue.publishing import PublisherOptions
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.telemetry.codec import JSON_TYPE

PARTITIONS = 12
BATCH = 128
PACKED = 500
STALL_S = 120.0
_HEADERS = (("content-type", JSON_TYPE.encode()),)


@dataclass(frozen=True)
class Scale:
    """How many messages."""

    single: int
    packed: int
    repeats: int


FULL = Scale(single=200_000, packed=400_000, repeats=3)
QUICK = Scale(single=20_000, packed=40_000, repeats=1)


def message(number: int) -> bytes:
    """A reading as a message of 300 bytes."""
    said = {
        "timestamp": f"2026-07-18T20:42:{number % 60:02d}.{number % 1_000_000:06d}Z",
        "metric_name": "DCGM_FI_DEV_GPU_UTIL",
        "gpu_id": str(number % 8),
        "uuid": f"GPU-{number % 4096:08x}-1f3a-4c6b-9d2e-0123456789ab",
        "hostname": f"mtv5-dgx1-hgpu-{number % 512:03d}",
        "value": float(number),
    }
    return orjson.dumps(said).ljust(300)


def publish(url: str, messages: int, batch: int) -> None:
    """The publisher's process: `batch` messages in a transaction, or in a packed value."""
    values = [message(number) for number in range(messages)]
    publisher = open_publisher(url, PublisherOptions(partitions=PARTITIONS, batch_messages=batch))
    wait_for_go()
    for at in range(0, messages, batch):
        partition = at // batch % PARTITIONS
        some = [Message(v, None, _HEADERS, 0, partition) for v in values[at : at + batch]]
        publish_one(publisher, some)
    left = publisher.flush(STALL_S)
    publisher.close()
    print(json.dumps({"left": left}), flush=True)


def publish_one(publisher: Publisher, messages: Sequence[Message]) -> None:
    """Wait while so much is on its way that nothing more is taken."""
    while True:
        try:
            publisher.publish(messages, lambda refused: None)
        except QueueFull:
            time.sleep(0.002)
        else:
            return


def work(url: str, batch: int, workers: int) -> None:
    """The worker's process: decodes every message and stores it under a key of its own."""
    parsed = parse_queue_url(url)
    assert isinstance(parsed, EtcdUrl)
    stored = f"{parsed.prefix}.stored/".encode()

    def handle(claimed: Claimed) -> Iterable[Put]:
        for frame in claimed.messages():
            said = orjson.loads(frame.value)
            name = f"{said['uuid']}/{said['timestamp']}_{said['metric_name']}_{said['value']:.0f}"
            yield Put(stored + name.encode(), frame.value)

    with Worker(parsed, ClaimOptions(workers=workers)) as worker:
        wait_for_go()
        threading.Thread(target=stop_when_told, args=(worker,), daemon=True).start()
        worker.work(handle, batch=batch)
        print(json.dumps({"conflicts": worker.conflicts}), flush=True)


def stop_when_told(worker: Worker) -> None:
    sys.stdin.readline()
    worker.stop()


def wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


class Role:
    """This script in another process."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, __file__, *words]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.line() != "ready":
            raise SystemExit(f"{words[1]} did not start")

    def say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        self.say()
        self._process.wait(60)


def end_to_end(etcd: LocalEtcd, name: str, messages: int, batch: int, workers: int) -> float:
    """Messages a second, all the way."""
    form = "packed" if name.startswith("packed") else "json"
    url = etcd.queue(name, f"partitions={PARTITIONS}&form={form}")
    # A claim of packed values is as large as two transactions of theirs.
    claimed = batch * 2 if form == "packed" else batch
    worker = Role(
        "--role", "work", "--url", url, "--batch", str(claimed), "--workers", str(workers)
    )
    words = ("--role", "publish", "--url", url, "--batch", str(batch), "--messages", str(messages))
    publisher = Role(*words)
    began = time.perf_counter()
    worker.say()
    publisher.say()
    seconds = until_taken(url, messages) - began
    publisher.line()
    worker.end()
    check_stored(url, messages)
    return messages / seconds


def until_taken(url: str, messages: int) -> float:
    """When the counters say that all were taken out."""
    deadline = time.monotonic() + STALL_S * 5
    with client_of(url) as (etcd, queue):
        while time.monotonic() < deadline:
            found: Totals = etcd.run(lambda client: totals(client, queue.layout))
            if found.taken.messages >= messages:
                return time.perf_counter()
            time.sleep(0.1)
    raise SystemExit(f"only {found} in time")


def check_stored(url: str, messages: int) -> None:
    """Every message is stored once; then all of it is removed, for the next run."""
    with client_of(url) as (etcd, queue):
        stored = Keys.prefix(f"{queue.prefix}.stored/".encode())
        count = etcd.run(lambda client: client.count(stored))
        if count != messages:
            raise SystemExit(f"{count} of {messages} messages are stored")
        etcd.delete(Keys.prefix(queue.prefix.encode()))


@contextmanager
def client_of(url: str) -> Iterator[tuple[BlockingClient, EtcdUrl]]:
    queue = parse_queue_url(url)
    assert isinstance(queue, EtcdUrl)
    with BlockingClient(queue.address.config()) as etcd:
        yield etcd, queue


def measure(etcd: LocalEtcd, scale: Scale, workers: int) -> list[Figure]:
    figures: list[Figure] = []
    for name, messages, batch, goal in (
        ("single", scale.single, BATCH, "9,000/s"),
        ("packed", scale.packed, PACKED, "20,000/s"),
    ):
        rates = [
            end_to_end(etcd, f"{name}-{n}", messages, batch, workers) for n in range(scale.repeats)
        ]
        said = " ".join(f"{rate:,.0f}" for rate in sorted(rates))
        what = f"publish → atomic ack-and-store, {name} (batches of {batch})"
        figures.append(Figure(what, f"{said}/s", goal))
        print(f"{what}: {said}/s", file=sys.stderr)
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of it, once")
    parser.add_argument("--workers", type=int, default=4, help="threads of the worker")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--role", choices=("publish", "work"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=BATCH, help=argparse.SUPPRESS)
    parser.add_argument("--messages", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.role == "publish":
        publish(asked.url, asked.messages, asked.batch)
        return
    if asked.role == "work":
        work(asked.url, asked.batch, asked.workers)
        return
    with tempfile.TemporaryDirectory() as folder:
        setting = machine(Path(folder))
        print(setting)
        with LocalEtcd(Path(folder) / "etcd") as etcd:
            figures = measure(etcd, QUICK if asked.quick else FULL, asked.workers)
    print_table(figures)
    if asked.json:
        save(asked.json, setting, figures)


if __name__ == "__main__":
    main()
