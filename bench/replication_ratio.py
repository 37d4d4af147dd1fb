"""What replication costs, ours and Apache Kafka's, on three nodes of this machine.

    python bench/replication_ratio.py [--quick] [--force] [--systems nexus,kafka] [--json FILE]

Messages of 200 bytes from one producer with acks=all: to one node, to three nodes with one copy of
each message, and to three with three copies, two of them at least before an acknowledgement. All
nodes of a system run at once and the runs are interleaved; ratios are those of medians. `nexus`
syncs before it acknowledges, as it does unless told otherwise; `nexus-interval` and `kafka` sync
once a second and promise by their copies. At most ten minutes, --quick about two.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from peers.busy import busy_share, refusal
from peers.clients.kafka import KafkaClient
from peers.clients.port import Lanes
from peers.servers.etcd import Etcd
from peers.servers.kafka import Kafka, Ports, start_node
from peers.servers.process import Durability, Server, free_port, launch, start_together
from peers.statistics import Spread, spread_of
from peers.work import Send, rate_of, run_all

from nexus.bench.clients import BenchFailed
from nexus.bench.local_broker import broker_environment
from nexus.bench.report import Figure, machine, print_table, save

SIZE: Final = 200
PARTITIONS: Final = 12
MESSAGES_MOST: Final = 2_000_000  # in one run: three copies of them are on the disk at once
HEAP: Final = "512m"  # four of Kafka's nodes share the machine with the producer
SECONDS_MOST: Final = 540.0
READY_SECONDS: Final = 60.0
_SETTINGS: Final = """
broker: {{id: {id}}}
cluster: {{mode: etcd, etcd_endpoints: "{etcd}"}}
storage: {{fsync: {fsync}}}
"""


class Arm(NamedTuple):
    """What is compared: so many nodes, so many copies of each message."""

    nodes: int
    copies: int

    def __str__(self) -> str:
        nodes = "one node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{nodes}, replication {self.copies}"


ALONE, SPREAD, COPIED = ARMS = (Arm(1, 1), Arm(3, 1), Arm(3, 3))
GOALS: Final = {("nexus", COPIED): "≥ 150,000"}

Start = Callable[[Path, int], contextlib.AbstractContextManager[str]]


@contextmanager
def ours(fsync: str, place: Path, nodes: int) -> Iterator[str]:
    """Brokers over an etcd of their own."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd().start(place / "etcd", Durability.FSYNC))
        starts = [partial(_broker, place, etcd, n, fsync) for n in range(1, nodes + 1)]
        yield ",".join(broker.address for broker in start_together(starts, stack))


def _broker(place: Path, etcd: Server, number: int, fsync: str) -> Server:
    home = place / f"broker-{number}"
    home.mkdir(parents=True)
    settings, port = home / "nexus.yaml", free_port()
    settings.write_text(_SETTINGS.format(id=number, etcd=etcd.address, fsync=fsync))
    words = ["--config", str(settings), "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]
    command = [sys.executable, "-m", "nexus", "broker", *words, "--data-dir", f"{home}/data"]
    return launch(command, home, port, broker_environment())


@contextmanager
def kafka(place: Path, nodes: int) -> Iterator[str]:
    """Nodes that are broker and controller each."""
    ports = [Ports() for _ in range(nodes)]

    def node(number: int) -> Server:
        return start_node(place / f"node-{number}", Durability.INTERVAL, number, ports, HEAP)

    with contextlib.ExitStack() as stack:
        starts = [partial(node, number) for number in range(1, nodes + 1)]
        yield ",".join(one.address for one in start_together(starts, stack))


SYSTEMS: Final[dict[str, Start]] = {
    "nexus": partial(ours, "commit"),
    "nexus-interval": partial(ours, "interval"),
    "kafka": kafka,
}


def measured(bootstrap: str, arm: Arm, number: int, seconds: float) -> float:
    """Messages a second, of one run."""
    lanes = Lanes(bootstrap, f"ratio-{arm.copies}-{number}", PARTITIONS)
    _prepare(lanes, arm.copies)
    rate = rate_of(run_all([Send("kafka", lanes, SIZE, seconds, MESSAGES_MOST)]))
    KafkaClient().remove(lanes)
    return rate


def _prepare(lanes: Lanes, copies: int) -> None:
    """A cluster may need a moment until it takes a topic with all its copies."""
    deadline = time.monotonic() + READY_SECONDS
    configs = {"min.insync.replicas": str(min(2, copies))}
    while True:
        try:
            KafkaClient().prepare(lanes, copies, configs)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def compared(
    start: Start, place: Path, repeats: int, seconds: float, until: float
) -> dict[Arm, list[float]]:
    """Rates by arm, in turn, each warm before its first run is counted; fewer where time is up."""
    rates: dict[Arm, list[float]] = {arm: [] for arm in ARMS}
    with start(place / "one", 1) as one, start(place / "three", 3) as three:
        for number in range(repeats + 1):
            if number > 1 and time.monotonic() > until:
                break
            for arm in ARMS:
                rate = measured(one if arm.nodes == 1 else three, arm, number, seconds)
                print(f"  {arm}: {rate:,.0f}/s{'' if number else ' (warming up)'}", flush=True)
                if number:
                    rates[arm].append(rate)
    return rates


def figures(name: str, rates: dict[Arm, list[float]]) -> list[Figure]:
    found = {arm: spread_of(values) for arm, values in rates.items()}
    alone = found[ALONE].median
    return [
        Figure(f"{name}, {arm}, messages/s", _said(found[arm]), GOALS.get((name, arm), ""))
        for arm in ARMS
    ] + [
        Figure(f"{name}, {arm} / {ALONE}", f"{found[arm].median / alone:.2f}", "report")
        for arm in (SPREAD, COPIED)
    ]


def _said(spread: Spread) -> str:
    return f"{spread.median:,.0f} ({spread.least:,.0f} to {spread.most:,.0f}, {spread.count} runs)"


def rows_of(name: str, place: Path, repeats: int, seconds: float, until: float) -> list[Figure]:
    """One system's figures, or why there are none: the others are measured all the same."""
    if name == "kafka" and (told := Kafka().missing()) is not None:
        return [Figure(f"{name} left out", told, "")]
    print(name, flush=True)
    try:
        rates = compared(SYSTEMS[name], place, repeats, seconds, until)
    except (BenchFailed, KafkaException, OSError) as error:
        return [Figure(f"{name} failed", f"{type(error).__name__}: {error}", "")]
    fewer = len(rates[ALONE]) < repeats
    cut = [Figure(f"{name}: cut short", f"{len(rates[ALONE])} of {repeats} runs", "")]
    return figures(name, rates) + (cut if fewer else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short run each")
    parser.add_argument("--force", action="store_true", help="on a busy machine too")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which, with commas between")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    names = options.systems.split(",")
    if wrong := [name for name in names if name not in SYSTEMS]:
        raise SystemExit(f"no such system: {', '.join(wrong)}; there are: {', '.join(SYSTEMS)}")
    share = busy_share()
    if (told := refusal(share)) is not None and not options.force:
        raise SystemExit(told)
    repeats, seconds = (1, 1.0) if options.quick else (5, 5.0)
    began, rows = time.monotonic(), list[Figure]()
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as folder:
        setting = f"{machine(Path(folder))}, others used {share:.0%} of {os.cpu_count()} cores"
        print(setting, flush=True)
        for turn, name in enumerate(names, 1):
            until = began + SECONDS_MOST * turn / len(names)
            rows += rows_of(name, Path(folder) / name, repeats, seconds, until)
    print_table(rows)
    if options.json:
        save(options.json, setting, rows)
    if any(row.measure.endswith("failed") for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
