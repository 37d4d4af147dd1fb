"""Measures the streamer on this machine: long CSV to a local broker, against the plain way.

    python bench/streamer.py [--quick] [--json FILE]

The plain way is csv.DictReader, json.dumps and confluent-kafka's produce(). Broker, streamer and
the plain way run in processes of their own, interleaved; acks=all and fsync before the
acknowledgement throughout. Ratios travel better than figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save

_SUMMARY = re.compile(r"([\d,]+) readings acknowledged in ([\d.]+) s")
_METRICS = (
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
)
_COLUMNS = (
    "timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,container,pod,namespace,"
    "value,labels_raw"
)


@dataclass(frozen=True)
class Scale:
    """How much to do."""

    rows: int
    plain_rows: int
    repeats: int


FULL = Scale(rows=2_000_000, plain_rows=300_000, repeats=3)
QUICK = Scale(rows=100_000, plain_rows=20_000, repeats=1)


@dataclass(frozen=True)
class Ran:
    """How one run fared."""

    readings: int
    seconds: float
    peak_bytes: int
    queue_bytes: float = 0.0

    @property
    def rate(self) -> float:
        return self.readings / self.seconds


def write_rows(path: Path, rows: int, hosts: int = 32, gpus: int = 8) -> None:
    """A long CSV as exporters' dumps are: metric-major, every cell quoted, labels in the last."""
    heads, tails = [], []
    for metric in _METRICS:
        for number in range(hosts * gpus):
            host, gpu = f"mtv5-dgx1-hgpu-{number // gpus:03d}", number % gpus
            uuid = f"GPU-{number:08x}-1f3a-4c6b-9d2e-{number * 2654435761 % (1 << 48):012x}"
            heads.append(
                f'"{metric}","{gpu}","nvidia{gpu}","{uuid}","NVIDIA H100 80GB HBM3","{host}"'
                ',"","","","'
            )
            tails.append(
                f'","DCGM_FI_DRIVER_VERSION=""535.129.03"",Hostname=""{host}"",UUID=""{uuid}"",'
                f'__name__=""{metric}"",device=""nvidia{gpu}"",gpu=""{gpu}"",'
                f'instance=""{host}:9400"",job=""dgx_dcgm_exporter"",'
                'modelName=""NVIDIA H100 80GB HBM3"""\n'
            )
    # Noise to the third digit: values that a codec cannot guess.
    chance = random.Random(7).random
    with path.open("w") as file:
        file.write(_COLUMNS + "\n")
        written, second = 0, 0
        while written < rows:
            stamp = time.strftime('"%Y-%m-%dT%H:%M:%SZ",', time.gmtime(1_752_800_000 + second))
            count = min(len(heads), rows - written)
            lines = zip(heads[:count], tails[:count], strict=True)
            file.writelines(f"{stamp}{head}{chance() * 100:.3f}{tail}" for head, tail in lines)
            written += count
            second += 1


def streamed(broker: LocalBroker, path: Path, encoding: str, topic: str, state: Path) -> Ran:
    """One `nexus streamer`, from its own first look at the file to the last acknowledgement."""
    before = topic_bytes(broker, topic)
    words = ["--source", f"csv://{path}", "--queue", f"kafka://{broker.bootstrap}/{topic}"]
    words += ["--encoding", encoding, "--state-dir", str(state), "--http", "127.0.0.1:0"]
    command = [sys.executable, "-m", "nexus", "streamer", *words]
    output, peak = run_child(command)
    found = _SUMMARY.search(output)
    if found is None:
        raise SystemExit(f"the streamer failed: {output}")
    written = topic_bytes(broker, topic) - before
    return Ran(int(found[1].replace(",", "")), float(found[2]), peak, written)


def plainly(broker: LocalBroker, path: Path, topic: str, rows: int) -> Ran:
    """The plain way, in a process of its own."""
    command = [sys.executable, __file__, "--plain", str(path), broker.bootstrap, topic, str(rows)]
    output, peak = run_child(command)
    seconds = float(output.split()[-1])
    return Ran(rows, seconds, peak)


def plain_way(path: str, bootstrap: str, topic: str, rows: int) -> None:
    """csv.DictReader, a dictionary, json.dumps, produce()."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 500_000,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=10)
    began = time.perf_counter()
    with open(path, newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if number == rows:
                break
            message = json.dumps(as_message(row))
            while True:
                try:
                    producer.produce(topic, message, row["uuid"])
                    break
                except BufferError:
                    producer.poll(0.01)
            if number % 1000 == 0:
                producer.poll(0)
    producer.flush(60)
    print(time.perf_counter() - began)


def as_message(row: dict[str, str]) -> dict[str, Any]:
    return {
        "timestamp": row["timestamp"],
        "metric_name": row["metric_name"],
        "gpu_id": row["gpu_id"],
        "uuid": row["uuid"],
        "device": row["device"],
        "hostname": row["Hostname"],
        "value": float(row["value"]),
        "labels": {"model_name": row["modelName"], "raw": row["labels_raw"]},
    }


def run_child(command: list[str]) -> tuple[str, int]:
    """Its standard output, and the most memory that it ever held."""
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if child.returncode != 0:
        raise SystemExit(f"{command[2:4]} failed: {text}")
    return text, usage.ru_maxrss * 1024


def topic_bytes(broker: LocalBroker, topic: str) -> float:
    """What the broker has appended to a topic, batches and all."""
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    wanted = f'nexus_broker_topic_bytes_in_total{{topic="{topic}"}} '
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(wanted))


def measured(data: Path, scale: Scale) -> list[Figure]:
    path = data / "long.csv"
    write_rows(path, scale.rows)
    runs: dict[str, list[Ran]] = {"arrow": [], "json": [], "plain": []}
    with LocalBroker(data / "broker") as broker:
        for number in range(scale.repeats):
            for encoding in ("arrow", "json"):
                topic = f"{encoding}-{number}"
                state = data / f"state-{encoding}-{number}"
                runs[encoding].append(streamed(broker, path, encoding, topic, state))
            topic = f"json-{number}"
            runs["plain"].append(plainly(broker, path, topic, scale.plain_rows))
    return figures(runs, path.stat().st_size / scale.rows)


def figures(runs: dict[str, list[Ran]], row_bytes: float) -> list[Figure]:
    rate = {name: statistics.median(run.rate for run in ran) for name, ran in runs.items()}
    peak = {name: max(run.peak_bytes for run in ran) for name, ran in runs.items()}
    arrow = statistics.median(run.queue_bytes / run.readings for run in runs["arrow"])
    as_json = statistics.median(run.queue_bytes / run.readings for run in runs["json"])
    return [
        Figure("long CSV to queue, Arrow", f"{rate['arrow']:,.0f} readings/s", ">= 400,000/s"),
        Figure("long CSV to queue, JSON", f"{rate['json']:,.0f} readings/s", ">= 80,000/s"),
        Figure("the plain way", f"{rate['plain']:,.0f} readings/s", ""),
        Figure(
            "Arrow / JSON against the plain way",
            f"{rate['arrow'] / rate['plain']:.1f} x / {rate['json'] / rate['plain']:.1f} x",
            ">= 6 x / >= 1.5 x",
        ),
        Figure("queue bytes for a reading, Arrow with zstd", f"{arrow:.1f}", "< 30"),
        Figure("queue bytes for a reading, JSON with lz4", f"{as_json:.1f}", ""),
        Figure("bytes of a row in the file", f"{row_bytes:.0f}", ""),
        Figure(
            "most memory held, Arrow / JSON",
            f"{peak['arrow'] / 2**20:.0f} / {peak['json'] / 2**20:.0f} MB",
            "< 300 MB",
        ),
    ]


def main() -> None:
    if sys.argv[1:2] == ["--plain"]:
        path, bootstrap, topic, rows = sys.argv[2:]
        plain_way(path, bootstrap, topic, int(rows))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    data = Path(tempfile.mkdtemp(prefix="nexus-bench-", dir=options.data))
    setting = machine(data)
    print(setting)
    try:
        found = measured(data, QUICK if options.quick else FULL)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    print_table(found)
    if options.json:
        save(options.json, setting, found)


if __name__ == "__main__":
    main()
