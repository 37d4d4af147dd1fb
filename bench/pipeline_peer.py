"""The plain way with Spark: JSON text, from_json, Parquet. What most pipelines do today."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.render import Renderer
from nexus.telemetry.json_codec import encode_json

SCHEMA = (
    "timestamp timestamp, metric_name string, gpu_id string, uuid string, device string,"
    " hostname string, value double, unit string, cluster string, namespace string, pod string,"
    " container string, ingested timestamp, labels map<string,string>"
)
_ROWS = 1_000_000
_RUNS = 5


def peer_rate(folder: Path) -> float:
    """Readings a second, the best of some runs over the same text (it is in the page cache)."""
    text = folder / "readings.json"
    rows = _write(text)
    spark = session(folder)
    try:
        best = 0.0
        for _ in range(_RUNS):
            begun = time.monotonic()
            parsed = spark.read.text(str(text)).select(F.from_json("value", SCHEMA).alias("r"))
            out = str(folder / "out")
            parsed.select("r.*").write.mode("overwrite").option("compression", "zstd").parquet(out)
            best = max(best, rows / (time.monotonic() - begun))
        return best
    finally:
        spark.stop()


def _write(path: Path) -> int:
    simulation = Simulation(SimulatorConfig(hosts=16, gpus=8, seed=1, interval_ms=1000))
    renderer = Renderer(simulation, lambda *_: True)
    rows = 0
    with path.open("wb") as file:
        while rows < _ROWS:
            table = renderer.table(simulation.advance(20))
            lines = encode_json(table.append_column("ingested", table.column("timestamp")))
            file.write(b"\n".join(lines) + b"\n")
            rows += len(lines)
    return rows


def session(folder: Path, more: Mapping[str, str] | None = None) -> SparkSession:
    """Spark on this machine alone, with both cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**options, **(more or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
