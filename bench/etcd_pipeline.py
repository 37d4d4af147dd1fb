"""Measures the pipeline on a queue in etcd: from one member through Spark to Delta tables.

    python bench/etcd_pipeline.py [--quick] [--parts packed,json,fresh] [--json FILE]

etcd, streamer and collector run in processes of their own, started as a user would start them.
Rates are read from the table's own log, less the first commits, in which Java is still compiling.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline import NEXUS, ages_live, collect

from nexus.bench.local_etcd import LocalEtcd
from nexus.bench.report import Figure, machine, print_table, save

BATCH = ("--no-derive", "--batch-size", "500000")


@dataclass(frozen=True)
class Scale:
    """How much to do."""

    packed_minutes: int  # of 128 GPUs with 20 metrics, every second: 153,600 readings a minute
    json_seconds: int
    fresh_seconds: int
    skip: int  # commits that are not counted


FULL = Scale(40, 180, 90, 4)
QUICK = Scale(16, 40, 25, 3)


def publish(queue: str, encoding: str, seconds: int) -> float:
    """A simulated fleet's readings of so long, as fast as it goes; how many a second."""
    span = f"start=2025-01-01T00:00:00Z&duration={seconds}s&interval=1s&speed=max"
    source = f"sim://?hosts=16&gpus=8&faults=none&{span}"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "NEXUS_STREAMER_STATE_DIR": state}
        command = [str(NEXUS), "streamer", "--source", source, "--queue", queue]
        command += ["--encoding", encoding, "--http", "127.0.0.1:0"]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return 2560 * seconds / (time.monotonic() - begun)


def measure_packed(etcd: LocalEtcd, root: Path, scale: Scale) -> list[Figure]:
    queue = etcd.queue("packed")
    published = publish(queue, "arrow", 60 * scale.packed_minutes)
    run = collect(queue, root, *BATCH)
    status = etcd.status()
    return [
        Figure("streamer to etcd, packed, readings/s", f"{published:,.0f}", ""),
        Figure("etcd to readings, packed, readings/s", f"{run.rate(scale.skip):,.0f}", "50,000"),
        Figure("start to the first commit, s", f"{run.first_s:.1f}", ""),
        Figure("etcd's database after it, MB", f"{status.db_bytes / 1e6:,.0f}", ""),
    ]


def measure_json(etcd: LocalEtcd, root: Path, scale: Scale) -> list[Figure]:
    queue = etcd.queue("json")
    published = publish(queue, "json", scale.json_seconds)
    run = collect(queue, root, "--no-derive", "--batch-size", "60000")
    rate = run.rate(min(scale.skip, len(run.commits) - 1))
    return [
        Figure("streamer to etcd, a key each, readings/s", f"{published:,.0f}", ""),
        Figure("etcd to readings, a key each, readings/s", f"{rate:,.0f}", ""),
    ]


def measure_fresh(etcd: LocalEtcd, root: Path, scale: Scale) -> list[Figure]:
    ages = ages_live(etcd.queue("fresh"), root, scale.fresh_seconds)
    return [Figure("published to visible, 5,120/s, p50 / p95, s", ages, "")]


MEASURES: dict[str, Callable[[LocalEtcd, Path, Scale], list[Figure]]] = {
    "packed": measure_packed,
    "json": measure_json,
    "fresh": measure_fresh,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small amounts, to see that it works")
    parser.add_argument("--parts", default=",".join(MEASURES), help="which measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else FULL
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as folder:
        root = Path(folder)
        setting = machine(root)
        print(setting, flush=True)
        for part in arguments.parts.split(","):
            print(f"… {part}", flush=True)
            place = root / part
            place.mkdir()
            with LocalEtcd(place / "etcd") as etcd:
                figures += MEASURES[part](etcd, place, scale)
            shutil.rmtree(place)
    print_table(figures)
    if arguments.json:
        save(arguments.json, setting, figures)


if __name__ == "__main__":
    main()
