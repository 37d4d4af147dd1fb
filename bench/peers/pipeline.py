"""The pipeline beside the plain ways: CSV to queue, queue to table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pipeline
import streamer

from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure
from peers.clients.kafka import KafkaClient
from peers.clients.port import Lanes
from peers.servers.kafka import Kafka
from peers.servers.process import Durability

TITLES: Final = {
    "csv": "Pipeline: CSV to queue, ours beside csv + json + confluent-kafka",
    "table": "Pipeline: queue to table, ours beside Spark with JSON text",
    "connector": "Pipeline: queue to Parquet with Spark's own Kafka connector",
}
PIPELINE_PARTS: Final = tuple(TITLES)
_TOPIC: Final = "connector"
_PARTITIONS: Final = 12


def pipeline_figures(
    parts: Sequence[str], place: Path, *, quick: bool
) -> dict[str, Sequence[Figure]]:
    """The figures of those parts that are wanted, under their titles."""
    found: dict[str, Sequence[Figure]] = {}
    for part in (part for part in PIPELINE_PARTS if part in parts):
        print(f"… {TITLES[part]}", file=sys.stderr, flush=True)
        folder = place / part
        folder.mkdir()
        try:
            found[TITLES[part]] = _MEASURES[part](folder, quick)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the hour before must not be lost
            found[TITLES[part]] = [Figure("failed", str(error).partition("\n")[0], "")]
            print(f"  failed: {error}", file=sys.stderr, flush=True)
    return found


def _csv(place: Path, quick: bool) -> list[Figure]:
    return streamer.measured(place, streamer.QUICK if quick else streamer.FULL)


def _table(place: Path, quick: bool) -> list[Figure]:
    scale = pipeline.QUICK if quick else pipeline.FULL
    return pipeline.measure(place, scale, ["arrow", "json", "peer"])


def _connector(place: Path, quick: bool) -> list[Figure]:
    """The same readings in both brokers, and Spark reads them."""
    # Spark is slow to import, and only this part needs it in this process.
    from pipeline_connector import connector_rates  # noqa: PLC0415

    minutes = (pipeline.QUICK if quick else pipeline.FULL).json_minutes
    with LocalBroker(place / "nexus") as ours:
        brokers = {"Nexus": ours.bootstrap}
        told = Kafka().missing()
        kafka = None if told else Kafka().start(place / "kafka", Durability.FSYNC)
        try:
            if kafka is not None:
                brokers["Apache Kafka"] = kafka.address
            for bootstrap in brokers.values():
                KafkaClient().prepare(Lanes(bootstrap, _TOPIC, _PARTITIONS))
                pipeline.publish(bootstrap, _TOPIC, "json", minutes)
            # A process of its own: the connector's jars must be there when Java starts.
            with ProcessPoolExecutor(1, get_context("spawn")) as apart:
                rates = apart.submit(connector_rates, brokers, _TOPIC, place).result()
        finally:
            if kafka is not None:
                kafka.stop()
    figures = [
        Figure(f"from {name}, readings/s", f"{rate:,.0f}", "") for name, rate in rates.items()
    ]
    return figures + ([Figure("Apache Kafka left out", told, "")] if told else [])


_MEASURES: Final[dict[str, Callable[[Path, bool], list[Figure]]]] = {
    "csv": _csv,
    "table": _table,
    "connector": _connector,
}
