"""The same readings and refused rows in a store of any kind, to be copied and compared."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.table import LakeTable
from nexus.pipeline.moving.opening import opened
from nexus.pipeline.moving.port import COPIED, Place, slices
from nexus.store.etcd.url import parse_etcd_store_url
from nexus.telemetry.tables import TABLES
from support import influx
from support.derived import canonical
from support.etcd import EtcdMember
from support.etcd_stores import EtcdFilled
from support.lake import FENCE, written
from support.lakes import Lake
from support.postgres import PostgresFilled, new_database

KINDS = ("delta", "etcd", "influx", "postgres")
HOSTILE = [
    "quote \" and ' and `",
    "comma, semicolon; tab\tand \\ backslash \\. \\N",
    "line\nbreak\r\nand \r return",
    "über 温度 🌡 \u202e\ufeff\x7f\x01",
    "'; DROP TABLE readings_stored; --",
    '"; DROP MEASUREMENT readings --',
    "%s %(p0)s $1 $p0 {} ${x} NULL",
    "a=b,c=d e\\ f",
    " leading and trailing ",
    "/../%2F/",
]
_TEXTS = ("uuid", "hostname", "pod", "labels", "instance", "metric", "namespace", "device")


def hostile_readings(moment: int) -> pa.Table:
    """A reading for each text that somebody may take for something else, and odd numbers."""
    rows: list[dict[str, Any]] = [
        {**dict.fromkeys(_TEXTS, text), "timestamp": moment + n} for n, text in enumerate(HOSTILE)
    ]
    values = (None, 0.0, -0.0, 1e300, -1e-300, 0.1, 2**53 + 0.0, 28.999999999999996)
    rows += [
        {"uuid": "GPU-odd", "metric": "m", "timestamp": moment + n, "value": value}
        for n, value in enumerate(values)
    ]
    rows.append({"uuid": "GPU-odd", "metric": "late", "timestamp": moment, "ingested": moment + 7})
    rows.append(
        {"uuid": "GPU-odd", "metric": "unit", "timestamp": moment, "value": 0.5, "source_value": 50}
    )
    return canonical(rows)


def refused_rows(count: int, twice: int = 0) -> pa.Table:
    """Rows of `quarantine`; with `twice`, the first two are equal in all that they say."""
    noon = datetime(2025, 7, 18, 12, tzinfo=UTC)
    rows = [
        {
            "refused": noon.replace(second=max(n, twice) % 60),
            "reason": HOSTILE[max(n, twice) % len(HOSTILE)],
            "stage": "validate",
            "topic": "t",
            "partition": max(n, twice) % 3,
            "offset": max(n, twice),
            "row": 0,
            "content_type": "text/csv",
            "source": "",
            "raw": b"\xff\x00 no text" if n % 2 == 0 and n > twice else b"some text",
            "day": noon.date(),
        }
        for n in range(count)
    ]
    return pa.Table.from_pylist(rows, TABLES["quarantine"].schema)


class Stores:
    """Makes stores of any kind, each new and empty."""

    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        self._folder = folder
        self._fixture = fixture

    def new(self, kind: str) -> str:
        """The address of an empty store."""
        if kind == "delta":
            return f"delta://{self._folder / secrets.token_hex(4)}"
        if kind == "postgres":
            return new_database(self._fixture("postgres"), "moved")
        if kind == "influx":
            return influx.new_database(self._fixture("influx"), "moved")
        return f"etcd://{self._fixture('etcd').endpoint}/moved-{secrets.token_hex(4)}"

    def fill(self, url: str, readings: list[pa.Table], refused: pa.Table | None = None) -> None:
        """Put rows into a store as a collector does."""
        with self._filled(url) as store:
            for rows in readings:
                store.add(rows)
            if refused is not None:
                store.refuse(refused)

    @contextmanager
    def _filled(self, url: str) -> Iterator[Any]:
        if url.startswith("delta:"):
            yield _Lake(Path(url.removeprefix("delta://")))
        elif url.startswith("etcd:"):
            prefix = parse_etcd_store_url(url).prefix
            member: EtcdMember = self._fixture("etcd")
            with EtcdFilled(member, prefix) as etcd:
                yield etcd
        elif url.startswith("influxdb:"):
            with influx.InfluxFilled(url) as points:
                yield points
        else:
            with PostgresFilled(url) as postgres:
                yield postgres


class _Lake(Lake):
    def refuse(self, rows: pa.Table) -> None:
        table = LakeTable.open(self.store, TABLES["quarantine"])
        for day in pc.unique(rows.column("day")):
            file = written(table.files_of, rows.filter(pc.equal(rows["day"], day)), str(day))
            last = table.transaction_version("test")
            table.append([file], "test", 0 if last is None else last + 1, FENCE)


def contents(url: str) -> dict[str, list[str]]:
    """All rows of a store as text, in order: what two stores that agree have in common."""
    with opened(url) as place:
        return {table: sorted(_rows(place, table)) for table in COPIED}


def _rows(place: Place, table: str) -> Iterator[str]:
    for part in slices(place.days(table), table, None, None):
        for rows in place.rows(part):
            names = sorted(rows.column_names)
            for row in rows.select(names).to_pylist():
                yield json.dumps(row, default=repr)
