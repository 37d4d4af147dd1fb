"""One system's measurements: each starts from what the one before left running, or from nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nexus.bench.clients import BenchFailed
from peers.clients.port import Client, Lanes
from peers.discard.serving import discarding
from peers.matrix import BASE, Point, Scale, nearest, points_for
from peers.samples import Sample
from peers.servers.process import Durability, Server, System
from peers.statistics import percentile
from peers.systems import SYSTEMS, client_of
from peers.work import Done, Send, Take, rate_of, run_all

_MILLION = 1e6
_IN_LINE_MS = 50.0  # half of the messages take longer: they come faster than they are synced
_MOST_HALVED = 4
_RECOVERED_S = 120.0


@dataclass
class Bench:
    """One system in one round."""

    name: str
    scale: Scale
    repeat: int

    @property
    def system(self) -> System:
        return SYSTEMS[self.name]

    @property
    def client(self) -> Client:
        return client_of(self.system.client)

    def sample(
        self, part: str, point: Point, durability: Durability, values: dict[str, float]
    ) -> Sample:
        setting = replace(point, durability=durability).words()
        return Sample(self.name, part, point.label, self.repeat, setting, durability, values)


def first_ack(bench: Bench, place: Path, durability: Durability) -> tuple[Server, float]:
    """A started server, and how long it took from nothing to its first acknowledgement."""
    began = time.perf_counter()
    server = bench.system.start(place, durability)
    try:
        lanes = Lanes(server.address, "first")
        bench.client.prepare(lanes)
        _send_one(bench, lanes)
    except BaseException:
        server.kill()
        raise
    return server, time.perf_counter() - began


def _send_one(bench: Bench, lanes: Lanes) -> None:
    sender = bench.client.sender(replace(lanes, prompt=True))
    try:
        sender.send([bytes(BASE.size)], 0)
        sender.flush()
    finally:
        sender.close()


def _send_until_taken(bench: Bench, lanes: Lanes) -> None:
    """A server that answers may still refuse what is sent to a queue that it is reading."""
    deadline = time.monotonic() + _RECOVERED_S
    while True:
        try:
            _send_one(bench, lanes)
            return
        except BenchFailed:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def warm_up(bench: Bench, server: Server) -> None:
    """Not counted: caches fill, and Java compiles."""
    lanes = Lanes(server.address, "warm")
    bench.client.prepare(lanes)
    load = Send(bench.system.client, lanes, BASE.size, bench.scale.warm_up_s, 10**9)
    (sent,) = run_all([load])
    run_all([Take(bench.system.client, lanes, 0, sent.messages, bench.scale.warm_up_s)])
    bench.client.remove(lanes)


def throughput(bench: Bench, server: Server, point: Point, number: int) -> dict[str, float]:
    """Send flat out, then read it all; what that cost the server."""
    scale, client = bench.scale, bench.client
    lanes = Lanes(server.address, f"load{number}", point.lanes, point.consumers)
    client.prepare(lanes)
    disk, cpu = server.disk_bytes(), server.cpu_seconds()
    most = max(1, scale.most_bytes // point.size // point.producers)
    load = Send(bench.system.client, lanes, point.size, scale.send_s, most)
    sent = run_all([load] * point.producers)
    sent_cpu, memory = server.cpu_seconds(), server.memory_bytes()
    written = server.disk_bytes() - disk
    read = run_all(_takes(bench, lanes, sent))
    read_cpu = server.cpu_seconds()
    memory = max(memory, server.memory_bytes())
    client.remove(lanes)
    count, taken = sum(d.messages for d in sent), sum(d.messages for d in read)
    return {
        "produce_per_s": rate_of(sent),
        "consume_per_s": rate_of(read),
        "produce_cpu_s_per_million": (sent_cpu - cpu) / count * _MILLION,
        "consume_cpu_s_per_million": (read_cpu - sent_cpu) / max(taken, 1) * _MILLION,
        "memory_mb": memory / 1e6,
        "disk_bytes_per_message": written / count,
        "messages": count,
    }


def _takes(bench: Bench, lanes: Lanes, sent: Sequence[Done]) -> list[Take]:
    """Each consumer's own part of what was sent."""
    in_lane = [sum(counts) for counts in zip(*(done.by_lane for done in sent), strict=True)]
    wanted = [
        sum(in_lane[lane] for lane in lanes.of_consumer(number))
        for number in range(lanes.consumers)
    ]
    return [
        Take(bench.system.client, lanes, number, count, bench.scale.read_s)
        for number, count in enumerate(wanted)
        if count
    ]


def latency(bench: Bench, server: Server, rate: float) -> dict[str, float]:
    """At this rate, or at the half of it, and so on, until messages no longer wait in line."""
    for halved in range(_MOST_HALVED + 1):
        found = _latency_at(bench, Lanes(server.address, f"paced{halved}", prompt=True), rate)
        if found["p50_ms"] < _IN_LINE_MS:
            break
        rate /= 2
    return found


def _latency_at(bench: Bench, lanes: Lanes, rate: float) -> dict[str, float]:
    """From the send call to the consumer that has the message, at a fixed rate."""
    bench.client.prepare(lanes)
    seconds = bench.scale.latency_s * 1.25  # the first fifth is not counted
    send = Send(bench.system.client, lanes, BASE.size, seconds, 10**9, rate)
    take = Take(bench.system.client, lanes, 0, int(rate * seconds), seconds, listens=True)
    _, heard = run_all([send, take])
    bench.client.remove(lanes)
    took = sorted(heard.latencies_ns[len(heard.latencies_ns) // 5 :])
    if not took:
        raise BenchFailed("no message came within the time")
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    found = {name: percentile(took, share) / 1e6 for name, share in shares.items()}
    return found | {"rate_per_s": rate, "messages": len(took)}


def on_server(bench: Bench, place: Path, parts: Sequence[str]) -> list[Sample]:
    """All that is measured on a fresh server, one server for each durability."""
    wanted: dict[Durability, list[Point]] = {nearest(bench.system, BASE.durability): []}
    if "throughput" in parts:
        for durability, point in points_for(bench.system, bench.scale.points):
            wanted.setdefault(durability, []).append(point)
    samples: list[Sample] = []
    for durability, points in wanted.items():
        server, seconds = first_ack(bench, place / durability, durability)
        try:
            samples.append(bench.sample("start", BASE, durability, {"seconds": seconds}))
            warm_up(bench, server)
            for number, point in enumerate(points):
                found = throughput(bench, server, point, number)
                samples.append(bench.sample("throughput", point, durability, found))
            if "latency" in parts and durability == next(iter(wanted)):
                found = latency(bench, server, _rate(bench.scale, samples))
                samples.append(bench.sample("latency", BASE, durability, found))
        finally:
            server.stop()
            shutil.rmtree(place, ignore_errors=True)
    return samples


def _rate(scale: Scale, samples: Sequence[Sample]) -> float:
    """The same for all, but at most a third of what a slow system can do."""
    base = [s for s in samples if s.part == "throughput" and s.label == BASE.label]
    return min([scale.latency_rate, *(s.values["produce_per_s"] / 3 for s in base)])


def ceiling(bench: Bench) -> list[Sample]:
    """The client at the base point, against a server that discards."""
    with discarding(bench.system.client, BASE.lanes) as (address, name):
        load = Send(bench.system.client, Lanes(address, name), BASE.size, bench.scale.send_s, 10**9)
        rate = rate_of(run_all([load]))
    return [bench.sample("ceiling", BASE, Durability.NONE, {"produce_per_s": rate})]


def fill_for_recovery(bench: Bench, filled: Path, place: Path) -> list[Sample]:
    """Leave the files of a server that was killed with so much in it, and see what it still has.

    They are copied to where they were written: RabbitMQ's have that path in them.
    """
    durability = nearest(bench.system, BASE.durability)
    scale = bench.scale
    messages = scale.recovery_bytes // scale.recovery_size
    server = bench.system.start(place, durability)
    try:
        lanes = Lanes(server.address, "kept")
        bench.client.prepare(lanes)
        run_all([Send(bench.system.client, lanes, scale.recovery_size, 600, messages)])
    finally:
        server.kill()
    place.rename(filled)
    with _recovered(bench, filled, place) as (lanes, _):
        # One more than that: the message which showed that it takes some again.
        take = Take(bench.system.client, lanes, 0, messages + 1, 0, listens=True)
        (found,) = run_all([take])
    values = {"percent": 100 * max(found.messages - 1, 0) / messages}
    return [bench.sample("survival", _kept_point(bench), durability, values)]


@contextmanager
def _recovered(bench: Bench, filled: Path, place: Path) -> Iterator[tuple[Lanes, float]]:
    """A server on a copy of those files, and when it first took a message there, in seconds."""
    shutil.copytree(filled, place)
    began = time.perf_counter()
    server = bench.system.start(place, nearest(bench.system, BASE.durability))
    try:
        lanes = Lanes(server.address, "kept")
        _send_until_taken(bench, lanes)
        yield lanes, time.perf_counter() - began
    finally:
        server.kill()
        shutil.rmtree(place, ignore_errors=True)


def _kept_point(bench: Bench) -> Point:
    return replace(BASE, label="recovery", size=bench.scale.recovery_size)


def recovery(bench: Bench, filled: Path, place: Path) -> list[Sample]:
    """From the start on a copy of those files to the first acknowledgement in the same place."""
    with _recovered(bench, filled, place) as (_, seconds):
        values = {"seconds": seconds, "kept_mb": bench.scale.recovery_bytes / 1e6}
    durability = nearest(bench.system, BASE.durability)
    return [bench.sample("recovery", _kept_point(bench), durability, values)]
