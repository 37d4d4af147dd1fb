"""Stores with readings in several commits and derived tables that are as far behind as told.

Nothing here is Spark's: derived tables are written as a plain recomputation has them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.fence import READINGS_APP
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.store.opening import open_store
from nexus.store.port import Page, Selection, Store, last_key
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES
from support.derived import (
    HOUR,
    MINUTE,
    NOON,
    Row,
    canonical,
    expected_gpus,
    expected_latest,
    expected_rollup,
    put,
)
from support.lake import FENCE, store_in, written

WIDTHS = {"rollup_1m": MINUTE, "rollup_1h": HOUR}
COLUMNS = {
    "uuids": "uuid",
    "migs": "mig",
    "gpus": "gpu",
    "hostnames": "hostname",
    "clusters": "cluster",
    "models": "model",
    "namespaces": "namespace",
    "pods": "pod",
    "metrics": "metric",
}


class Lake:
    """A store in a folder or elsewhere, and all that was ever put into it."""

    def __init__(self, place: Path | StoreUrl) -> None:
        self.store = place if isinstance(place, StoreUrl) else store_in(place)
        self.readings: pa.Table = READING_SCHEMA.empty_table()
        self._at: dict[int, pa.Table] = {}

    @property
    def url(self) -> str:
        return str(self.store)

    def add(self, rows: pa.Table) -> int:
        """Commit readings; the version that has them."""
        version = put(self.store, rows)
        self.readings = pa.concat_tables([self.readings, rows])
        self._at[version] = self.readings
        return version

    def mark(self, version: int) -> None:
        """Have derived tables of a version made of what `readings` says now."""
        self._at[version] = self.readings

    def derive(
        self, name: str, version: int, closed: int | None = None, seen: int | None = None
    ) -> None:
        """Write a derived table as of a version; of stored windows, as of one `seen` later."""
        readings = self._at[version if seen is None else seen]
        says = {READINGS_APP: version}
        if name in WIDTHS:
            rows = expected_rollup(readings, WIDTHS[name], closed)
            if closed is not None:
                says["closed"] = closed // 1_000_000
        else:
            rows = (expected_latest if name == "latest" else expected_gpus)(readings)
        self._replace(name, rows, says)

    def _replace(self, name: str, rows: Sequence[Row], says: Mapping[str, int]) -> None:
        table = LakeTable.open(self.store, TABLES[name])
        schema = table.spec.schema
        made = pa.Table.from_pylist([{n: row[n] for n in schema.names} for row in rows], schema)
        table.replace(_files(table, made), table.files(), says, FENCE)


def _files(table: LakeTable, rows: pa.Table) -> list[Any]:
    if not rows.num_rows:
        return []
    if not table.spec.partitions:
        return [written(table.files_of, rows)]
    days = rows.column("day")
    return [
        written(table.files_of, rows.filter(pc.equal(days, day)), str(day))
        for day in pc.unique(days)
    ]


def fleet_readings(rng: random.Random, count: int, start_us: int, end_us: int) -> pa.Table:
    """Readings of a few GPUs, one of them cut by MIG, that pods share; some were not collected."""
    rows: dict[tuple[Any, ...], Row] = {}
    while len(rows) < count:
        gpu = rng.randrange(4)
        row: Row = {
            "uuid": f"GPU-{gpu}",
            "mig": rng.choice(["", "1", "2"]) if gpu == 3 else "",
            "gpu": str(gpu % 2),
            "hostname": f"h{gpu // 2}",
            "cluster": "east" if gpu < 3 else "west",
            "model": "H100" if gpu < 2 else "H200",
            "metric": rng.choice(["gpu_util", "engine_active", "power", "memory_used", "made_up"]),
            "unit": "",
            "instance": rng.choice(["", "", "link=1"]),
            "namespace": rng.choice(["", "ml"]),
            "pod": rng.choice(["", "a", "b"]),
            "timestamp": rng.randrange(start_us, end_us),
            "value": _value(rng),
        }
        if rng.random() < 0.3:  # on a window's very edge
            row["timestamp"] -= row["timestamp"] % rng.choice([MINUTE, HOUR])
            row["timestamp"] = max(row["timestamp"], start_us)
        if rng.random() < 0.05:
            row |= {"uuid": f"{row['hostname']}/", "metric": "load"}
            row |= dict.fromkeys(("gpu", "mig", "cluster", "model"), "")
        key = tuple(
            row[n] for n in ("uuid", "mig", "metric", "instance", "namespace", "pod", "timestamp")
        )
        rows.setdefault(key, row)
    return canonical(rows.values())


def _value(rng: random.Random) -> float | None:
    if rng.random() < 0.1:
        return None
    return rng.choice([rng.uniform(-1e3, 1e3), float(rng.randrange(3)), 1e300])


def without(new: pa.Table, held: pa.Table) -> pa.Table:
    """The readings that are not held yet: a store has each once."""
    names = TABLES["readings"].key
    known = set(zip(*(held.column(name).to_pylist() for name in names), strict=True))
    keys = zip(*(new.column(name).to_pylist() for name in names), strict=True)
    return new.filter(pa.array([key not in known for key in keys], pa.bool_()))


def any_lake(folder: Path, rng: random.Random) -> Lake:
    """Some commits over half a day, late readings among them, and derived tables at any stage."""
    lake = Lake(folder)
    start = NOON - rng.randrange(14) * HOUR
    versions = []
    for number in range(rng.randrange(1, 6)):
        late = rng.random() < 0.4
        low = start if late else start + number * 2 * HOUR
        rows = fleet_readings(rng, rng.choice([3, 40, 150]), low, start + (number + 1) * 2 * HOUR)
        versions.append(lake.add(without(rows, lake.readings)))
    for name in ("rollup_1m", "rollup_1h", "latest", "gpus"):
        if rng.random() < 0.8:
            version = rng.choice(versions)
            if name in WIDTHS:
                width = WIDTHS[name]
                closed = (start + rng.randrange(12 * HOUR)) // width * width
                seen = rng.choice([v for v in versions if v >= version])
                lake.derive(name, version, rng.choice([closed, closed, None]), seen)
            else:
                lake.derive(name, version)
    return lake


def any_selection(rng: random.Random) -> Selection:
    """Often everything, or a GPU; now and then something rarer."""
    choices: list[Mapping[str, Any]] = [
        {},
        {"uuids": ("GPU-1",)},
        {"uuids": ("GPU-0", "GPU-3")},
        {"uuids": ("GPU-3",), "migs": ("1",)},
        {"metrics": ("power", "made_up")},
        {"hostnames": ("h0",), "pods": ("a", "")},
        {"clusters": ("west",), "namespaces": ("ml",)},
        {"models": ("H200",), "gpus": ("0",)},
        {"uuids": ("nobody",)},
        {"metrics": ("power", "gpu_util"), "instances": (("power", "link=1"),)},
    ]
    return Selection(**rng.choice(choices))


def selected(rows: pa.Table, which: Selection) -> pa.Table:
    """The rows that a selection names."""
    for part, column in COLUMNS.items():
        if values := getattr(which, part):
            rows = rows.filter(pc.is_in(rows.column(column), pa.array(values, pa.string())))
    if named := {metric for metric, _ in which.instances}:
        columns = (rows.column(name).to_pylist() for name in ("metric", "instance"))
        pairs = zip(*columns, strict=True)
        fits = [pair in which.instances or pair[0] not in named for pair in pairs]
        rows = rows.filter(pa.array(fits, pa.bool_()))
    return rows


def between(rows: pa.Table, low: int, high: int, column: str = "timestamp") -> pa.Table:
    """The rows with times from `low` to `high`, both in."""
    ticks = rows.column(column).cast(pa.int64())
    return rows.filter(pc.and_(pc.greater_equal(ticks, low), pc.less_equal(ticks, high)))


@contextmanager
def opened(lake: Lake, **how: Any) -> Iterator[Store]:
    """The store of a lake, to be asked."""
    store = open_store(lake.url, **how)
    try:
        yield store
    finally:
        store.close()


def walked(
    ask: Callable[[Page], pa.Table], key: tuple[str, ...], limit: int, *, descending: bool = False
) -> pa.Table:
    """All pages of an answer, one after the other."""
    pages = [ask(Page(limit, None, descending))]
    while (after := last_key(pages[-1], key)) is not None:
        pages.append(ask(Page(limit, after, descending)))
    return pa.concat_tables(pages)
