"""Measures a store in etcd: readings a second from a queue through Spark into it.

    python bench/etcd_store.py [--quick] [--parts same,apart] [--json FILE]

`same` has queue and store in one etcd, where acknowledging and storing are one transaction;
`apart` has them in two. etcd, streamer and collector run in processes of their own. The first
batches, in which Java is still compiling, are not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from etcd_pipeline import publish
from pipeline import NEXUS

from nexus.bench.local_etcd import LocalEtcd
from nexus.bench.report import Figure, machine, print_table, save

SECONDS, QUICK_SECONDS = 150, 50  # of 2,560 readings each
SKIP = 2


class Batch(NamedTuple):
    """How far a collector was when it had told of a batch."""

    at_s: float
    readings: int


def collect(queue: str, store: str, root: Path, readings: int = 20_000) -> list[Batch]:
    """Everything that waits, in batches of so many readings; how far it was after each."""
    command = [str(NEXUS), "collector", "--queue", queue, "--store", store, "--available-now"]
    command += ["--batch-size", str(readings), "--data-dir", str(root / "data")]
    command += ["--http", "127.0.0.1:0", "--json"]
    with (root / "collector.err").open("wb") as errors:
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=errors, text=True)
    batches: list[Batch] = []
    for line in map(json.loads, told.stdout.splitlines()):
        if line["readings"] > (batches[-1].readings if batches else 0):
            batches.append(Batch(line["seconds"], line["readings"]))
    return batches


def rate(batches: list[Batch]) -> float:
    assert len(batches) > 1, "one batch is no rate: publish more"
    first, last = batches[min(SKIP, len(batches) - 2)], batches[-1]
    return (last.readings - first.readings) / (last.at_s - first.at_s)


def figures(
    what: str, queue: LocalEtcd, store: LocalEtcd, root: Path, seconds: int
) -> list[Figure]:
    publish(queue.queue("queue"), "arrow", seconds)
    before = store.status().db_bytes
    batches = collect(queue.queue("queue"), store.queue("store"), root)
    grown = (store.status().db_bytes - before) / batches[-1].readings
    return [
        Figure(f"{what}, packed, readings/s", f"{rate(batches):,.0f}", ""),
        Figure(f"{what}, bytes of database a reading", f"{grown:,.0f}", ""),
    ]


def measure_same(root: Path, seconds: int) -> list[Figure]:
    with LocalEtcd(root / "etcd") as etcd:
        return figures("queue and store in one etcd", etcd, etcd, root, seconds)


def measure_apart(root: Path, seconds: int) -> list[Figure]:
    with LocalEtcd(root / "etcd") as etcd, LocalEtcd(root / "other") as other:
        return figures("queue and store in two", etcd, other, root, seconds)


MEASURES: dict[str, Callable[[Path, int], list[Figure]]] = {
    "same": measure_same,
    "apart": measure_apart,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small amounts, to see that it works")
    parser.add_argument("--parts", default=",".join(MEASURES), help="which measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as folder:
        root = Path(folder)
        setting = machine(root)
        print(setting, flush=True)
        for part in arguments.parts.split(","):
            print(f"… {part}", flush=True)
            place = root / part
            place.mkdir()
            found += MEASURES[part](place, QUICK_SECONDS if arguments.quick else SECONDS)
            shutil.rmtree(place)
    print_table(found)
    if arguments.json:
        save(arguments.json, setting, found)


if __name__ == "__main__":
    main()
