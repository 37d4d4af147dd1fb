"""Holds the tables of a store against what was sent, and each other, by plain recomputation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import TopicPartition
from deltalake import DeltaTable

from nexus.lake.url import StoreUrl
from nexus.telemetry.reading import READING_SCHEMA
from support.confluent import consumer_of, watermarks
from support.derived import (
    HOUR,
    MINUTE,
    expected_gpus,
    expected_latest,
    expected_rollup,
    same_rows,
    stored,
)
from support.sender import Place, Sender

WRITTEN = ("readings", "quarantine", "rollup_1m", "rollup_1h", "latest", "gpus")
WIDTHS = {"rollup_1m": MINUTE, "rollup_1h": HOUR}


def check_store(store: StoreUrl, sender: Sender, *, refused_again: bool = False) -> dict[str, int]:
    """Every reading sent is there once, with its values, and everything follows from that.

    Gives the number of rows in each table. With `refused_again`, what was refused may be there
    more than once: a collector without the checkpoint of the one before reads the queue anew.
    """
    readings = stored(store, "readings")
    same_tables(readings.select(READING_SCHEMA.names), sender.expected())
    check_refused(stored(store, "quarantine"), sender.refused, again=refused_again)
    check_derived(store, readings)
    return {name: stored(store, name).num_rows for name in WRITTEN}


def same_tables(found: pa.Table, wanted: pa.Table) -> None:
    """Fail unless both hold the same rows, each as often, in whatever order."""
    with duckdb.connect() as database:
        database.register("found", found.cast(wanted.schema))
        database.register("wanted", wanted)
        missing = _less(database, "wanted", "found")
        surplus = _less(database, "found", "wanted")
    counts = f"{found.num_rows} rows instead of {wanted.num_rows}"
    assert not missing, f"{counts}; missing such as {missing[0]}"
    assert not surplus, f"{counts}; too many such as {surplus[0]}"


def check_refused(found: pa.Table, wanted: dict[Place, str], *, again: bool = False) -> None:
    """Fail unless just these are in quarantine, each once."""
    names = ("partition", "offset", "row", "stage")
    rows = Counter(zip(*(found.column(name).to_pylist() for name in names), strict=True))
    places = Counter((*place, stage) for place, stage in wanted.items())
    assert (set(rows) == set(places)) if again else (rows == places)


def check_derived(store: StoreUrl, readings: pa.Table) -> None:
    """Fail unless the derived tables are what DuckDB makes of the readings."""
    for name, width in WIDTHS.items():
        handle = DeltaTable(store.table_uri(name), storage_options=store.storage_options)
        closed = handle.transaction_version("closed")
        assert closed is not None, f"{name} was never computed"
        closed_us = closed * 1_000_000
        newest = max(readings.column("timestamp").cast(pa.int64()).to_pylist())
        assert closed_us > newest, f"{name} does not go up to the last reading"
        same_rows(stored(store, name), expected_rollup(readings, width, closed_us), name)
    same_rows(stored(store, "latest"), expected_latest(readings), "latest")
    same_rows(stored(store, "gpus"), expected_gpus(readings), "gpus")


def committed(bootstrap: str, topic: str, partitions: int, group: str) -> dict[int, int]:
    """What a group has told to have read, by partition."""
    consumer = consumer_of(bootstrap, **{"group.id": group})
    try:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {each.partition: each.offset for each in consumer.committed(places, 20)}
    finally:
        consumer.close()


def ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    return {n: watermarks(bootstrap, topic, n)[1] for n in range(partitions)}


def _less(database: Any, one: str, other: str) -> list[Any]:
    query = f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other} LIMIT 3"
    rows: list[Any] = database.sql(query).fetchall()
    return rows
