"""Derived tables as a plain recomputation has them, by DuckDB, to hold the real ones against."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA, TIMESTAMP
from nexus.telemetry.tables import TABLES
from support.lake import FENCE, written

Row = dict[str, Any]
MINUTE, HOUR = 60_000_000, 3_600_000_000
NOON = int(datetime(2025, 7, 18, 12, tzinfo=UTC).timestamp()) * 1_000_000
_SERIES = ", ".join(SERIES_COLUMNS)
_DEVICE = ("gpu", "device", "model", "hostname", "cluster")
_PERCENT = {"p50": 50, "p95": 95, "p99": 99}


def canonical(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Canonical readings; a row says only what matters, times in microseconds."""
    usual: Row = {f.name: "" for f in READING_SCHEMA if pa.types.is_string(f.type)}
    usual |= {"metric": "temperature", "uuid": "GPU-1", "value": 1.0, "timestamp": NOON}
    full = [{**usual, **row} for row in rows]
    for row in full:
        row.setdefault("ingested", row["timestamp"])
        row.setdefault("source_value", 0.0 if row["value"] is None else row["value"])
    columns = [pa.array([row[f.name] for row in full], f.type) for f in READING_SCHEMA]
    return pa.table(columns, schema=READING_SCHEMA)


def put(store: StoreUrl, *tables: pa.Table) -> int:
    """Store each table's readings as files by day, in one commit a table."""
    readings = LakeTable.open(store, TABLES["readings"])
    for table in tables:
        days = table.column("timestamp").cast(pa.date32())
        files = [
            written(readings.files_of, table.filter(pc.equal(days, day)), str(day))
            for day in pc.unique(days)
        ]
        last = readings.transaction_version("test")
        readings.append(files, "test", 0 if last is None else last + 1, FENCE)
    return readings.version


def stored(store: StoreUrl, name: str) -> pa.Table:
    """All rows of a table."""
    table = LakeTable.open(store, TABLES[name])
    batches = table.files_of.read([file.path for file in table.files()])
    return pa.Table.from_batches(list(batches), table.spec.schema)


def expected_rollup(readings: pa.Table, width: int, closed: int | None = None) -> list[Row]:
    """What the rollup of all closed windows must be."""
    texts = ", ".join(f"arg_max({name}, timestamp) AS {name}" for name in _DEVICE)
    ranks = ", ".join(f"s[(len(s) * {p} + 99) // 100] AS {name}" for name, p in _PERCENT.items())
    rows = _rows(
        readings,
        f"""
        SELECT *, {ranks}, CAST(start AS DATE) AS day FROM (
          SELECT {_SERIES}, make_timestamptz(epoch_us(timestamp) // {width} * {width}) AS start,
                 {texts}, count(value) AS count, count(*) - count(value) AS missing,
                 min(value) AS min, max(value) AS max,
                 arg_max(value, timestamp) FILTER (value IS NOT NULL) AS last,
                 max(timestamp) FILTER (value IS NOT NULL) AS last_timestamp,
                 list_sort(list(value) FILTER (value IS NOT NULL)) AS s
          FROM readings GROUP BY ALL)
        WHERE epoch_us(start) < {closed if closed is not None else 2**62}
        """,
    )
    return [{**row, "mean": _mean(row["s"])} for row in rows]


def expected_latest(readings: pa.Table) -> list[Row]:
    return _rows(
        readings,
        f"""SELECT * FROM readings
            QUALIFY row_number() OVER (PARTITION BY {_SERIES} ORDER BY timestamp DESC) = 1""",
    )


def expected_gpus(readings: pa.Table) -> list[Row]:
    names = ", ".join(f.name for f in TABLES["gpus"].schema if not f.name.endswith("_seen"))
    return _rows(
        readings,
        f"""SELECT {names}, min(timestamp) OVER (PARTITION BY uuid, mig) AS first_seen,
                   timestamp AS last_seen
            FROM readings WHERE NOT (gpu = '' AND uuid = hostname || '/')
            QUALIFY row_number() OVER (PARTITION BY uuid, mig ORDER BY timestamp DESC,
              namespace DESC, pod DESC, container DESC, instance, metric) = 1""",
    )


def same_rows(found: pa.Table, wanted: Sequence[Row], name: str) -> None:
    """Fail unless these are the rows that must be there: once each, exact, mean to 1e-12."""
    key = TABLES[name].key
    have = _by_key(found.to_pylist(), key)
    assert len(have) == found.num_rows, "a key is there twice"
    want = _by_key(wanted, key)
    assert have.keys() == want.keys()
    for one, row in have.items():
        other = want[one]
        for column in TABLES[name].schema.names:
            assert row[column] == _close(column, other), (column, row, other)


def any_readings(rng: random.Random, count: int, span_us: int, start_us: int = NOON) -> pa.Table:
    """Distinct readings: several GPUs and holders, gaps, odd values, metrics of hosts."""
    hosts = ["h1", "h2"]
    rows: dict[tuple[Any, ...], Row] = {}
    while len(rows) < count:
        gpu = rng.randrange(4)
        row: Row = {
            "uuid": f"GPU-{gpu}",
            "gpu": str(gpu),
            "hostname": rng.choice(hosts),
            "metric": rng.choice(["temperature", "power", "xid"]),
            "pod": rng.choice(["", "a", "b"]),
            "labels": rng.choice(["", '{"driver":"1"}']),
            "timestamp": start_us + rng.randrange(span_us),
            "value": _any_value(rng),
        }
        if rng.random() < 0.1:
            row |= {"uuid": f"{row['hostname']}/", "gpu": "", "pod": "", "metric": "load"}
        rows.setdefault((row["uuid"], row["metric"], row["pod"], row["timestamp"]), row)
    return canonical(rows.values())


def shuffled(table: pa.Table, rng: random.Random) -> pa.Table:
    order = list(range(table.num_rows))
    rng.shuffle(order)
    return table.take(pa.array(order))


def _any_value(rng: random.Random) -> float | None:
    odd: list[Callable[[], float | None]] = [
        lambda: None,
        lambda: rng.choice([0.0, -0.0, 1e300, -1e300, 1.7e308, 5e-324]),
        lambda: float(rng.randrange(5)),
    ]
    return rng.choice(odd)() if rng.random() < 0.3 else rng.uniform(-1e3, 1e3)


def _mean(values: Sequence[float] | None) -> float | None:
    """The mean as exact as a number can be, also where the sum is none."""
    return float(sum(map(Fraction, values)) / len(values)) if values else None


def _close(column: str, row: Row) -> Any:
    if column != "mean" or row["mean"] is None:
        return row[column]
    return pytest.approx(row["mean"], rel=1e-12, abs=1e-12 * max(abs(row["min"]), abs(row["max"])))


def _by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[name] for name in key): row for row in rows}


def _rows(readings: pa.Table, query: str) -> list[Row]:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("readings", readings)
        rows: pa.Table = database.sql(query).to_arrow_table()
    fields = [
        pa.field(f.name, TIMESTAMP if pa.types.is_timestamp(f.type) else f.type)
        for f in rows.schema
    ]
    plain: list[Row] = rows.cast(pa.schema(fields)).to_pylist()
    return plain
