"""Measures the pipeline on this machine: from a local broker through Spark to Delta tables.

    python bench/pipeline.py [--quick] [--parts arrow,json,tables,peer,fresh,history] [--json FILE]

Broker, streamer and collector run in processes of their own, started as a user would start them.
Rates are read from the table's own log: rows and time of each commit, less the first ones, in
which Java is still compiling. Ratios travel better than figures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from pipeline_peer import peer_rate
from pipeline_table import Commit, commits_of, fill_table, freshness_s, medians

from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save
from nexus.up.memory import pss_bytes

NEXUS = Path(sys.executable).with_name("nexus")
PARTS = ("arrow", "json", "tables", "peer", "fresh", "history")


@dataclass(frozen=True)
class Scale:
    """How much to do."""

    arrow_minutes: int  # of 128 GPUs with 20 metrics, every second: 153,600 readings a minute
    json_minutes: int
    fresh_seconds: int
    stored: int  # readings in the table before the measurement "history"
    skip: int  # commits that are not counted


FULL = Scale(100, 30, 90, 100_000_000, 4)
QUICK = Scale(20, 3, 25, 4_000_000, 1)


@dataclass
class Collected:
    """One run of the collector."""

    commits: list[Commit]
    seconds: float  # from the start of the program to its end
    first_s: float  # to the first commit
    peak_pss: int
    ended: float = field(default_factory=time.time)

    def rate(self, skip: int) -> float:
        """Readings a second between the commit before the counted ones and the last."""
        counted = self.commits[skip:]
        return sum(c.rows for c in counted) / (counted[-1].at - self.commits[skip - 1].at)

    def rate_to_end(self, skip: int) -> float:
        """The same, until the program had ended: with the derived tables up to date."""
        return sum(c.rows for c in self.commits[skip:]) / (self.ended - self.commits[skip - 1].at)


def publish(bootstrap: str, topic: str, encoding: str, minutes: int, hosts: int = 16) -> None:
    """A simulated fleet's readings of so many minutes, as fast as it goes."""
    span = f"start=2025-01-01T00:00:00Z&duration={minutes}m&interval=1s&speed=max"
    source = f"sim://?hosts={hosts}&gpus=8&faults=none&{span}"
    queue = f"kafka://{bootstrap}/{topic}"
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "NEXUS_STREAMER_STATE_DIR": state}
        command = [str(NEXUS), "streamer", "--source", source, "--queue", queue]
        command += ["--encoding", encoding, "--http", "127.0.0.1:0"]
        subprocess.run(
            command,
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def collect(queue: str, root: Path, *flags: str) -> Collected:
    """One collector from an empty checkpoint to the end of the queue."""
    store = root / "tables"
    shutil.rmtree(root / "collector", ignore_errors=True)
    before = len(commits_of(store / "readings")) if store.exists() else 0
    begun = time.time()
    process = start_collector(queue, root, "--available-now", *flags)
    peak = Peak(process.pid)
    if process.wait() != 0:
        raise SystemExit(f"the collector failed; see {root}/collector.log")
    ended = time.time()
    commits = commits_of(store / "readings")[before:]
    return Collected(commits, ended - begun, commits[0].at - begun, peak.end(), ended)


def start_collector(queue: str, root: Path, *flags: str) -> subprocess.Popen[bytes]:
    command = [str(NEXUS), "collector", "--queue", queue, "--store", f"delta://{root}/tables"]
    command += ["--data-dir", f"{root}/collector", "--http", "127.0.0.1:0", "--json", *flags]
    with (root / "collector.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


class Peak:
    """The greatest memory (PSS) of a process with all its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak = pid, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> int:
        self._stop.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self._peak = max(self._peak, pss_bytes(self._pid))


def measure_arrow(broker: LocalBroker, root: Path, scale: Scale) -> tuple[list[Figure], float]:
    publish(broker.bootstrap, "arrow", "arrow", scale.arrow_minutes)
    run = collect(f"kafka://{broker.bootstrap}/arrow", root, "--no-derive")
    rate = run.rate(scale.skip)
    return [
        Figure("queue to readings, Arrow, readings/s", f"{rate:,.0f}", "300,000"),
        Figure("start to the first commit, s", f"{run.first_s:.1f}", "< 20"),
        Figure("driver and workers, peak PSS, GB", f"{run.peak_pss / 1e9:.2f}", "< 2.3"),
    ], rate


def measure_json(broker: LocalBroker, root: Path, scale: Scale) -> list[Figure]:
    publish(broker.bootstrap, "json", "json", scale.json_minutes)
    queue = f"kafka://{broker.bootstrap}/json"
    run = collect(queue, root, "--no-derive")
    return [Figure("queue to readings, JSON, readings/s", f"{run.rate(scale.skip):,.0f}", "60,000")]


def measure_tables(broker: LocalBroker, root: Path, scale: Scale) -> list[Figure]:
    publish(broker.bootstrap, "tables", "arrow", scale.arrow_minutes)
    run = collect(f"kafka://{broker.bootstrap}/tables", root)
    rate = run.rate_to_end(scale.skip)
    return [
        Figure("queue to all tables, Arrow, readings/s", f"{rate:,.0f}", "120,000"),
        Figure("the same, peak PSS, GB", f"{run.peak_pss / 1e9:.2f}", ""),
    ]


def measure_fresh(broker: LocalBroker, root: Path, scale: Scale) -> list[Figure]:
    ages = ages_live(f"kafka://{broker.bootstrap}/fresh", root, scale.fresh_seconds)
    return [Figure("published to visible, 5,120/s, p50 / p95, s", ages, "p95 < 5")]


def ages_live(queue: str, root: Path, seconds: int) -> str:
    """5,120 readings a second, live; how old a reading is when its commit makes it visible."""
    command = [str(NEXUS), "streamer", "--source", "sim://?hosts=32&gpus=8", "--queue", queue]
    command += ["--interval", "1s", "--http", "127.0.0.1:0"]
    environment = {**os.environ, "NEXUS_STREAMER_STATE_DIR": str(root / "streamer")}
    with (root / "streamer.log").open("wb") as log:
        streamer = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    collector = start_collector(queue, root, "--trigger", "2s")
    begun = time.time()
    try:
        time.sleep(60 + seconds)  # the first minute is Java's
    finally:
        for process in (streamer, collector):
            process.terminate()
        for process in (streamer, collector):
            process.wait(60)
    # Not the last ten seconds: what had not become visible at the end would not be counted.
    return freshness_s(root / "tables" / "readings", begun + 60, begun + 50 + seconds)


def measure_history(broker: LocalBroker, root: Path, scale: Scale) -> list[Figure]:
    """The same batches into an empty table and into one with much in it."""
    publish(broker.bootstrap, "history", "arrow", scale.arrow_minutes // 2)
    queue = f"kafka://{broker.bootstrap}/history"
    empty, full = root / "empty", root / "full"
    for place in (empty, full):
        place.mkdir()
    fill_table(f"delta://{full}/tables", scale.stored)
    flags = ("--no-derive", "--batch-size", "500000")
    runs = [collect(queue, place, *flags) for place in (empty, full)]
    ratio = medians(runs[1].commits, scale.skip) / medians(runs[0].commits, scale.skip)
    name = f"batch time with {scale.stored / 1e6:,.0f} million stored / empty"
    return [Figure(name, f"{ratio:.2f}", "< 1.20")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small amounts, to see that it works")
    parser.add_argument("--parts", default=",".join(PARTS), help="which measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else FULL
    wanted = arguments.parts.split(",")
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as folder:
        root = Path(folder)
        setting = machine(root)
        print(setting, flush=True)
        figures = measure(root, scale, wanted)
    print_table(figures)
    if arguments.json:
        save(arguments.json, setting, figures)


def measure(root: Path, scale: Scale, wanted: list[str]) -> list[Figure]:
    figures: list[Figure] = []
    rate = 0.0
    with LocalBroker(root / "broker") as broker:
        for part in wanted:
            place = root / part
            place.mkdir()
            print(f"… {part}", flush=True)
            if part == "arrow":
                found, rate = measure_arrow(broker, place, scale)
            elif part == "peer":
                found = _beside_peer(rate, place)
            else:
                found = _MEASURES[part](broker, place, scale)
            figures += found
            shutil.rmtree(place)
    return figures


def _beside_peer(rate: float, place: Path) -> list[Figure]:
    plain = peer_rate(place)
    ratio = f"{rate / plain:.2f}" if rate else "(needs arrow)"
    return [
        Figure("Spark's from_json over text to Parquet, readings/s", f"{plain:,.0f}", ""),
        Figure("our Arrow path against it", ratio, "2"),
    ]


_MEASURES = {
    "json": measure_json,
    "tables": measure_tables,
    "fresh": measure_fresh,
    "history": measure_history,
}

if __name__ == "__main__":
    main()
