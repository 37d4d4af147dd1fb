"""The usual way with Spark: its own Kafka connector, from_json, Parquet; from any Kafka broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pyspark
from peers.maven import archives
from pipeline_peer import SCHEMA, session
from pyspark.sql import functions as F

from nexus.bench.clients import BenchFailed

_NAME: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
# A release of Spark may be without its connector for a while; this one is whole.
_VERSIONS: Final = (pyspark.__version__, "4.0.0")
# The rest of what it depends on is Spark's own.
_NOT_IN_SPARK: Final = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
_RUNS: Final = 3


def connector_rates(brokers: dict[str, str], topic: str, folder: Path) -> dict[str, float]:
    """Readings a second from the topic of each broker, interleaved; the best of some runs."""
    found = sorted(_connector().glob("*.jar"))
    jars = ",".join(str(jar) for jar in found if jar.name.startswith(_NOT_IN_SPARK))
    spark = session(folder, {"spark.jars": jars})
    best = dict.fromkeys(brokers, 0.0)
    try:
        for _ in range(_RUNS):
            for name, bootstrap in brokers.items():
                out = str(folder / "out")
                begun = time.monotonic()
                messages = (
                    spark.read.format("kafka")
                    .option("kafka.bootstrap.servers", bootstrap)
                    .option("subscribe", topic)
                    .option("startingOffsets", "earliest")
                    .load()
                )
                value = F.col("value").cast("string")
                parsed = messages.select(F.from_json(value, SCHEMA).alias("r")).select("r.*")
                parsed.write.mode("overwrite").option("compression", "zstd").parquet(out)
                took = time.monotonic() - begun
                best[name] = max(best[name], spark.read.parquet(out).count() / took)
        return best
    finally:
        spark.stop()


def _connector() -> Path:
    """That of this Spark, else the newest that can be had."""
    try:
        return archives(f"{_NAME}:{_VERSIONS[0]}")
    except BenchFailed:
        return archives(f"{_NAME}:{_VERSIONS[1]}")
