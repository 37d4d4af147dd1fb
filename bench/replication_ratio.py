"""What replication costs, ours and Apache Kafka's: three nodes with three copies against one.

    python bench/replication_ratio.py [--quick] [--force] [--systems nexus,kafka] [--json FILE]

Throughput of one producer with acks=all, two copies at least before an acknowledgement, without
an fsync before it in either (replication is what they promise by); all nodes run on this machine
at once, and the runs are interleaved. The ratio is that of medians.
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
from pathlib import Path
from typing import Final

from peers.busy import busy_share, refusal
from peers.clients.kafka import KafkaClient
from peers.clients.port import Lanes
from peers.servers.etcd import Etcd
from peers.servers.kafka import Kafka, Ports, start_node
from peers.servers.process import Durability, Server, free_port, launch
from peers.statistics import Spread, spread_of
from peers.work import Send, rate_of, run_all

from nexus.bench.local_broker import broker_environment
from nexus.bench.report import Figure, machine, print_table, save

SIZE: Final = 200
PARTITIONS: Final = 12
_SETTINGS: Final = """
broker: {{id: {id}}}
cluster: {{mode: etcd, etcd_endpoints: "{etcd}"}}
replication: {{default_replication_factor: {copies}, min_insync_replicas: {least}}}
storage: {{fsync: interval}}
"""


@contextmanager
def ours(place: Path, nodes: int) -> Iterator[str]:
    """Brokers over an etcd of their own, one or three of them."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd().start(place / "etcd", Durability.FSYNC))
        brokers = [stack.enter_context(_broker(place, etcd, n, nodes)) for n in range(1, nodes + 1)]
        yield ",".join(broker.address for broker in brokers)


def _broker(place: Path, etcd: Server, number: int, nodes: int) -> Server:
    home = place / f"broker-{number}"
    home.mkdir(parents=True)
    settings, port = home / "nexus.yaml", free_port()
    least = min(2, nodes)
    settings.write_text(_SETTINGS.format(id=number, etcd=etcd.address, copies=nodes, least=least))
    words = ["--config", str(settings), "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]
    command = [sys.executable, "-m", "nexus", "broker", *words, "--data-dir", f"{home}/data"]
    return launch(command, home, port, broker_environment())


@contextmanager
def kafka(place: Path, nodes: int) -> Iterator[str]:
    """Nodes that are broker and controller each."""
    ports = [Ports() for _ in range(nodes)]
    with contextlib.ExitStack() as stack:
        for number in range(1, nodes + 1):
            home = place / f"node-{number}"
            stack.enter_context(start_node(home, Durability.INTERVAL, number, ports))
        yield ",".join(f"127.0.0.1:{one.clients}" for one in ports)


SYSTEMS: Final[dict[str, Callable[[Path, int], contextlib.AbstractContextManager[str]]]] = {
    "nexus": ours,
    "kafka": kafka,
}


def measured(bootstrap: str, nodes: int, number: int, seconds: float) -> float:
    lanes = Lanes(bootstrap, f"ratio{number}", PARTITIONS)
    _prepare(lanes, nodes)
    rate = rate_of(run_all([Send("kafka", lanes, SIZE, seconds, 10**9)]))
    KafkaClient().remove(lanes)
    return rate


def _prepare(lanes: Lanes, nodes: int) -> None:
    """A cluster may need a moment until it takes a topic with all its copies."""
    deadline = time.monotonic() + 60
    while True:
        try:
            KafkaClient().prepare(lanes, replication=nodes)
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def compared(name: str, place: Path, repeats: int, seconds: float) -> dict[int, Spread]:
    """One node and three, in turn, each warm before its first run is counted."""
    start = SYSTEMS[name]
    rates: dict[int, list[float]] = {1: [], 3: []}
    with start(place / "one", 1) as one, start(place / "three", 3) as three:
        for number in range(-1, repeats):
            for nodes, bootstrap in ((1, one), (3, three)):
                rate = measured(bootstrap, nodes, number + 1, seconds)
                if number >= 0:
                    rates[nodes].append(rate)
    return {nodes: spread_of(found) for nodes, found in rates.items()}


def figures(name: str, found: dict[int, Spread]) -> list[Figure]:
    def said(spread: Spread) -> str:
        return f"{spread.median:,.0f} ({spread.least:,.0f} to {spread.most:,.0f})"

    return [
        Figure(f"{name}, one node, messages/s", said(found[1]), ""),
        Figure(f"{name}, three nodes, three copies, messages/s", said(found[3]), ""),
        Figure(f"{name}, three / one", f"{found[3].median / found[1].median:.2f}", ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short run each")
    parser.add_argument("--force", action="store_true", help="on a busy machine too")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    share = busy_share()
    if (told := refusal(share)) is not None and not options.force:
        raise SystemExit(told)
    repeats, seconds = (1, 1.0) if options.quick else (5, 5.0)
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as folder:
        setting = f"{machine(Path(folder))}, others used {share:.0%} of {os.cpu_count()} cores"
        print(setting, flush=True)
        rows: list[Figure] = []
        for name in options.systems.split(","):
            if name == "kafka" and (told := Kafka().missing()):
                rows.append(Figure("Apache Kafka left out", told, ""))
                continue
            rows += figures(name, compared(name, Path(folder) / name, repeats, seconds))
    print_table(rows)
    if options.json:
        save(options.json, setting, rows)


if __name__ == "__main__":
    main()
