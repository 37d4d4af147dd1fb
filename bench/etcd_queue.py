"""Measures the queue in etcd on this machine, against one message a round trip in the same run.

    python bench/etcd_queue.py [--quick] [--parts publish,latency,recipe,steady] [--minutes 10]
                               [--json FILE]

etcd is one member in a process of its own, with the flags that `nexus up` gives it; every write is
on disk with fsync before it is answered. Messages are readings of 300 bytes in JSON.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Protocol

import orjson
from etcd_recipe import put_message, take_message

from nexus.bench.local_etcd import LocalEtcd
from nexus.bench.report import Figure, machine, print_table, save
from nexus.etcd import EtcdConfig, Get, Keys, Put
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueAway, QueueFull
from nexus.queue.etcd.layout import Layout, Slot
from nexus.queue.etcd.publisher import EtcdPublisher
from nexus.queue.etcd.worker import Worker
from nexus.queue.port import Headers, Message
from nexus.queue.publishing import PublisherOptions
from nexus.queue.url import EtcdUrl, parse_queue_url

JSON: Final[Headers] = (("content-type", b"application/json"),)
PARTITIONS: Final = 12
BATCH: Final = 128


@dataclass(frozen=True)
class Scale:
    """How much to do."""

    messages: int
    packed_messages: int
    single: int
    recipe: int
    repeats: int


FULL: Final = Scale(200_000, 1_000_000, 3000, 4000, 3)
QUICK: Final = Scale(20_000, 100_000, 300, 500, 1)


def readings(count: int) -> list[Message]:
    """Messages of 300 bytes from a fleet of 64 GPUs."""
    return [_reading(n) for n in range(count)]


def _reading(n: int) -> Message:
    gpu = n % 64
    said = {
        "timestamp": "2025-07-18T20:42:34Z",
        "metric_name": "DCGM_FI_DEV_GPU_UTIL",
        "gpu_id": str(gpu % 8),
        "uuid": f"GPU-5fd4f087-86f3-7a43-b711-{gpu:012d}",
        "device": f"nvidia{gpu % 8}",
        "hostname": f"mtv5-dgx1-hgpu-{gpu // 8:03d}",
        "value": float(n % 100),
        "labels": {"driver_version": "535.129.03", "model_name": "NVIDIA H100 80GB HBM3"},
    }
    text = orjson.dumps(said)
    return Message(text.ljust(300), said["uuid"].encode(), JSON, partition=gpu % PARTITIONS)  # type: ignore[attr-defined]


class Publishing:
    """A publisher that is connected, and waits where it must."""

    def __init__(self, address: str, batch: int = 10_000) -> None:
        options = PublisherOptions(partitions=PARTITIONS, batch_messages=batch)
        self.url = etcd_url(address)
        self._publisher = EtcdPublisher(self.url, options)
        while True:
            try:
                self._publisher.partitions()
                return
            except QueueAway:
                time.sleep(0.01)

    def publish(self, messages: Sequence[Message], *, rate: float = 0.0) -> float:
        """All of them, acknowledged; how many a second that were. `rate` holds it back."""
        began, step = time.perf_counter(), 2048
        for start in range(0, len(messages), step):
            self._publish(messages[start : start + step])
            if rate:
                time.sleep(max(0.0, began + (start + step) / rate - time.perf_counter()))
        assert self._publisher.flush(120) == 0
        return len(messages) / (time.perf_counter() - began)

    def publish_one(self, message: Message) -> float:
        """Seconds from the call to its acknowledgement."""
        settled = threading.Event()
        began = time.perf_counter()
        self._publisher.publish([message], lambda _: settled.set())
        assert settled.wait(30)
        return time.perf_counter() - began

    def _publish(self, messages: Sequence[Message]) -> None:
        while True:
            try:
                return self._publisher.publish(messages, lambda _: None)
            except QueueFull:
                time.sleep(0.001)

    def close(self) -> None:
        self._publisher.close()


def etcd_url(address: str) -> EtcdUrl:
    url = parse_queue_url(address)
    assert isinstance(url, EtcdUrl)
    return url


def measure_publish(etcd: LocalEtcd, scale: Scale) -> list[Figure]:
    """As fast as one publisher can."""
    messages = readings(scale.messages)
    figures: list[Figure] = []
    for name, options, batch, count, goal in (
        ("publish, batches of 128, messages/s", "form=json", BATCH, scale.messages, "20,000"),
        ("publish, as the server takes, messages/s", "form=json", 10_000, scale.messages, ""),
        ("publish, packed, messages/s", "form=packed", 10_000, scale.packed_messages, "150,000"),
    ):
        given = messages * (count // len(messages))
        names = [f"{len(figures)}-{number}" for number in range(scale.repeats)]
        rates = [_published(etcd, queue, options, batch, given) for queue in names]
        figures.append(Figure(name, _spread(rates), goal))
    return figures


def _published(
    etcd: LocalEtcd, name: str, options: str, batch: int, messages: Sequence[Message]
) -> float:
    publishing = Publishing(etcd.queue(name, options), batch)
    try:
        return publishing.publish(messages)
    finally:
        publishing.close()
        _empty(etcd, publishing.url.layout)


def measure_latency(etcd: LocalEtcd, scale: Scale) -> list[Figure]:
    """One message at a time: until it is acknowledged, and until a reader has it."""
    publishing = Publishing(etcd.queue("single", "form=json"))
    reader = Doorbell(etcd, publishing.url.layout, Slot("local-cluster", 0))
    message = _reading(0)
    publishing.publish_one(message)
    acknowledged, read = [], []
    try:
        for _ in range(scale.single):
            began = time.perf_counter()
            acknowledged.append(publishing.publish_one(message))
            read.append(reader.when_next() - began)
            time.sleep(0.001)
    finally:
        reader.close()
        publishing.close()
    goal = "p99 < 10 ms"
    return [
        Figure("publish one, p50 / p99 ms", _percentiles(acknowledged), goal),
        Figure("publish → doorbell → reader, p50 / p99 ms", _percentiles(read), goal),
    ]


class Doorbell:
    """A reader that watches the bells, and then reads what is new in one slot."""

    def __init__(self, etcd: LocalEtcd, layout: Layout, slot: Slot) -> None:
        self._etcd = BlockingClient(etcd.config)
        self._left = self._etcd, layout.slot(slot)
        self._arrived: list[float] = []
        self._seen = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._watching = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(layout, slot), daemon=True)
        self._thread.start()
        assert self._watching.wait(10)

    def when_next(self) -> float:
        """When the next message had been read."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._arrived) > self._seen, 10)
            self._seen += 1
            return self._arrived[self._seen - 1]

    def close(self) -> None:
        self._stopping = True
        self._thread.join(5)
        self._etcd.close()

    def _run(self, layout: Layout, slot: Slot) -> None:
        left = layout.slot(slot)
        with self._etcd.watch(layout.metas("bells")) as bells:
            self._watching.set()
            first = True
            while not self._stopping:
                if bells.next(0.2) is None:
                    continue
                found = self._etcd.range(Get(left)).items
                now = time.perf_counter()
                if found:
                    left = left.after(found[-1].key)
                with self._changed:
                    # The message before the measurement shows that everything is connected.
                    self._arrived += [now] * (len(found) - first)
                    first = first and not found
                    self._changed.notify_all()


def measure_recipe(etcd: LocalEtcd, scale: Scale) -> list[Figure]:
    """Publish, read, and acknowledge and store in one step: a message a round trip, or ours."""
    plain = _through(etcd, _recipe_in, _recipe_out, scale.recipe)
    ours = _through(etcd, _batches_in, _batches_out, scale.recipe * BATCH // 4)
    return [
        Figure("recipe queue, through and stored, messages/s", f"{plain:,.0f}", ""),
        Figure("ours, batches of 128, through and stored, messages/s", f"{ours:,.0f}", ""),
        Figure("times as fast", f"{ours / plain:.1f}", "20"),
    ]


def _through(
    etcd: LocalEtcd,
    publish: Callable[[str, int, Barrier], None],
    take: Callable[[str, int, Barrier], None],
    messages: int,
) -> float:
    """Messages a second, from the first that goes in to the last that is acknowledged and stored.

    One process publishes and another takes, both at the same time.
    """
    processes = get_context("spawn")
    ready = processes.Barrier(3)
    both = [
        processes.Process(target=work, args=(etcd.endpoint, messages, ready), daemon=True)
        for work in (publish, take)
    ]
    for each in both:
        each.start()
    ready.wait(60)
    began = time.perf_counter()
    for each in both:
        each.join()
        if each.exitcode:
            raise SystemExit(f"one of the two processes ended with {each.exitcode}")
    return messages / (time.perf_counter() - began)


class Barrier(Protocol):
    """Where processes wait for each other."""

    def wait(self, timeout: float) -> object: ...


def _recipe_in(endpoint: str, messages: int, ready: Barrier) -> None:
    message = _reading(0).value
    with BlockingClient(EtcdConfig((endpoint,))) as client:
        ready.wait(60)
        for _ in range(messages):
            put_message(client, b"/recipe/queue/", message)


def _recipe_out(endpoint: str, messages: int, ready: Barrier) -> None:
    queue, taken = Keys.prefix(b"/recipe/queue/"), 0
    with BlockingClient(EtcdConfig((endpoint,))) as client:
        ready.wait(60)
        while taken < messages:
            one = take_message(client, queue, lambda i: [Put(b"/recipe/store" + i.key, i.value)])
            taken += one is not None


def _batches_in(endpoint: str, messages: int, ready: Barrier) -> None:
    some = readings(messages)
    publishing = Publishing(f"etcd://{endpoint}/through?form=json", BATCH)
    ready.wait(60)
    publishing.publish(some)
    publishing.close()


def _batches_out(endpoint: str, messages: int, ready: Barrier) -> None:
    taken = 0
    with Worker(f"etcd://{endpoint}/through") as worker:
        ready.wait(60)
        while taken < messages:
            claims = worker.claim(BATCH, wait_s=0.2)
            if claims:
                worker.ack(claims, [Put(b"/through/store" + c.key, c.value) for c in claims])
                taken += len(claims)


def measure_steady(etcd: LocalEtcd, scale: Scale, minutes: float) -> list[Figure]:
    """Memory and database while messages go in and out at half the top rate."""
    publishing = Publishing(etcd.queue("steady", "form=json"), BATCH)
    messages = readings(20_000)
    try:
        rate = publishing.publish(messages) / 2
        taker = Taker(etcd, publishing.url.layout)
        samples: list[tuple[float, int, int]] = []
        began = time.monotonic()
        while time.monotonic() - began < minutes * 60:
            publishing.publish(messages[: int(rate * 5)], rate=rate)
            status = etcd.status()
            samples.append((time.monotonic() - began, etcd.memory_bytes(), status.db_bytes))
        taker.close()
    finally:
        publishing.close()
    return [
        Figure("steady run, messages/s", f"{rate:,.0f}", "half the top rate"),
        Figure(
            "etcd memory, MB by tenth of the run", _tenths([(t, m) for t, m, _ in samples]), "flat"
        ),
        Figure(
            "database, MB by tenth of the run", _tenths([(t, d) for t, _, d in samples]), "flat"
        ),
    ]


class Taker:
    """Takes everything out a few times a second, as a collector's commits do."""

    def __init__(self, etcd: LocalEtcd, layout: Layout) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(etcd, layout), daemon=True)
        self._thread.start()

    def _run(self, etcd: LocalEtcd, layout: Layout) -> None:
        with BlockingClient(etcd.config) as client:
            while not self._over.wait(0.5):
                client.delete(layout.messages)

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)


def _empty(etcd: LocalEtcd, layout: Layout) -> None:
    """Nothing of a measurement is left for the next."""
    with BlockingClient(etcd.config) as client:
        done = client.delete(layout.messages)
        client.run(lambda c: c.maintenance.compact(done.revision, physical=True))


def _spread(rates: Sequence[float]) -> str:
    least, most = min(rates), max(rates)
    return f"{most:,.0f}" if len(rates) == 1 else f"{least:,.0f} to {most:,.0f}"


def _percentiles(seconds: Sequence[float]) -> str:
    ranked = sorted(seconds)
    p50, p99 = (ranked[int(share * (len(ranked) - 1))] * 1000 for share in (0.5, 0.99))
    return f"{p50:.1f} / {p99:.1f}"


def _tenths(samples: Sequence[tuple[float, int]]) -> str:
    """The largest value in each tenth of the time."""
    whole = samples[-1][0]
    tenths: list[int] = [0] * 10
    for at, value in samples:
        tenth = min(9, int(10 * at / whole))
        tenths[tenth] = max(tenths[tenth], value)
    return " ".join(f"{value / 1e6:.0f}" for value in tenths if value)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--parts", default="publish,latency,recipe,steady")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the steady run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    scale = QUICK if chosen.quick else FULL
    minutes = min(chosen.minutes, 0.5) if chosen.quick else chosen.minutes
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as root:
        setting = machine(Path(root))
        print(setting, flush=True)
        for part in chosen.parts.split(","):
            with LocalEtcd(Path(root) / part) as etcd:
                if part == "steady":
                    figures += measure_steady(etcd, scale, minutes)
                else:
                    figures += MEASURES[part](etcd, scale)
            print(*(f"{f.measure}: {f.value}" for f in figures[-3:]), sep="\n", flush=True)
    print_table(figures)
    if chosen.json is not None:
        save(chosen.json, setting, figures)


MEASURES: Final = {
    "publish": measure_publish,
    "latency": measure_latency,
    "recipe": measure_recipe,
}


if __name__ == "__main__":
    main()
