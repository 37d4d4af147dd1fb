"""Fills a store for the benchmark of the gateway: a day of a simulated fleet, derived tables too.

A thousand GPUs report twenty metrics each, as often as the readings asked for allow, over a little
more than a day; eight more report every second, for the last two hours. The newest readings are
in small files, as a collector leaves them before the upkeep merges them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.fence import READINGS_APP, Fence
from nexus.lake.files import NewFile
from nexus.lake.merge import in_order
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.render import Renderer
from nexus.telemetry.combine import Combined, combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import DEVICE_COLUMNS
from nexus.telemetry.tables import TABLES

FENCE: Final = Fence(0, "bench")
HOSTS, GPUS_A_HOST, METRICS = 125, 8, 20
HOUR_S: Final = 3600
SPAN_S: Final = 25 * HOUR_S
QUICK_S: Final = 2 * HOUR_S  # of the GPUs that report every second
SMALL_FILES: Final = 30
_SERIES_TEXT: Final = tuple(dict.fromkeys((*SERIES_COLUMNS, *DEVICE_COLUMNS)))

Seen = Callable[[str, pa.Table], None]  # what else is done with the rows of a table


@dataclass(frozen=True)
class Filled:
    """What is in the store."""

    readings: int
    rollups: int
    end_s: int  # of the newest reading
    interval_s: int
    slow: tuple[str, ...]  # GPUs that report at the interval
    quick: tuple[str, ...]  # and every second


def fill(
    store: StoreUrl, readings: int, end_s: int, seen: Seen = lambda name, rows: None
) -> Filled:
    """Make all tables; `seen` is shown every row of them as well."""
    fleets = Fleets(readings, end_s)
    writer = _Writer(store, seen)
    for rows, is_last in fleets.hours():
        writer.hour(rows, last=is_last)
    writer.finish(fleets.end_s)
    return fleets.filled(writer.readings, writer.rollups)


class Fleets:
    """Both fleets, hour by hour; their readings together are about as many as were asked for."""

    def __init__(self, readings: int, end_s: int) -> None:
        self.end_s = end_s - end_s % 60
        share = HOSTS * GPUS_A_HOST * METRICS
        quick_rows = min(GPUS_A_HOST * METRICS * QUICK_S, readings // 20)
        quick_s = quick_rows // (GPUS_A_HOST * METRICS) // 60 * 60
        ticks = max(10, (readings - quick_rows) // share)
        self._interval_s = max(1, SPAN_S // ticks)
        self._slow = _Fleet(HOSTS, 1, self._interval_s, self.end_s - ticks * self._interval_s)
        self._quick = _Fleet(1, 2, 1, self.end_s - quick_s)

    def hours(self) -> Iterator[tuple[pa.Table, bool]]:
        """The readings of each hour, and whether it is the last."""
        low = self._slow.start_s
        while low < self.end_s:
            high = min(self.end_s, low - low % HOUR_S + HOUR_S)
            made = (fleet.until(high) for fleet in (self._slow, self._quick))
            parts = [part for part in made if part is not None]
            if parts:
                yield pa.concat_tables(parts).unify_dictionaries(), high == self.end_s
            low = high

    def filled(self, readings: int, rollups: int) -> Filled:
        slow, quick = self._slow.uuids(), self._quick.uuids()
        return Filled(readings, rollups, self.end_s, self._interval_s, slow, quick)


class _Fleet:
    """A simulated fleet, read on and on."""

    def __init__(self, hosts: int, seed: int, interval_s: int, start_s: int) -> None:
        config = SimulatorConfig(
            hosts=hosts,
            gpus=GPUS_A_HOST,
            seed=seed,
            interval_ms=interval_s * 1000,
            start_ms=start_s * 1000,
        )
        self.start_s, self._interval_s, self._done_s = start_s, interval_s, start_s
        self._simulation = Simulation(config)
        self._renderer = Renderer(self._simulation)

    def uuids(self) -> tuple[str, ...]:
        return tuple(gpu.uuid for gpu in self._simulation.fleet.gpus)

    def until(self, end_s: int) -> pa.Table | None:
        """The readings before a moment that were not given yet."""
        ticks = -(-(end_s - self._done_s) // self._interval_s)
        if ticks <= 0:
            return None
        self._done_s += ticks * self._interval_s
        made = self._renderer.table(self._simulation.advance(ticks))
        return normalise(made.append_column("ingested", made.column("timestamp")))


class _Writer:
    """Writes readings hour by hour, and what is derived of them."""

    def __init__(self, store: StoreUrl, seen: Seen) -> None:
        self._tables = {
            name: LakeTable.open(store, TABLES[name])
            for name in ("readings", "rollup_1m", "rollup_1h", "latest", "gpus")
        }
        self._seen = seen
        self._number = 0
        self._newest: list[pa.Table] = []  # of each hour, the last reading of each series
        self._database = duckdb.connect(config={"threads": 2})
        self._database.execute("SET TimeZone = 'UTC'")
        self.readings = self.rollups = 0

    def hour(self, rows: pa.Table, *, last: bool) -> None:
        """Store an hour's readings and its windows; the last hour's end is in small files."""
        self._seen("readings", rows)
        self.readings += rows.num_rows
        large, small = _cut(rows) if last else (rows, [])
        self._append([large, *small])
        series = combine([rows.column(name) for name in _SERIES_TEXT])
        minutes = self._windows(_numbered(rows, series), 60)
        hours = self._windows(_numbered(rows, series), HOUR_S)
        for name, windows in (("rollup_1m", minutes), ("rollup_1h", hours)):
            told = _told(windows, series)
            self._seen(name, told)
            self.rollups += told.num_rows
            table = self._tables[name]
            table.replace(_written(table, told), [], {}, FENCE)
        last_rows = "SELECT arg_max(row, tick) AS row FROM rows GROUP BY series"
        newest = self._run(last_rows, _numbered(rows, series))
        self._newest.append(_plain(rows.take(newest.column("row"))))

    def finish(self, end_s: int) -> None:
        """Store the snapshots, and say what all derived tables stand for."""
        last = self._last()
        says = {READINGS_APP: self._tables["readings"].version}
        latest, gpus = self._tables["latest"], self._tables["gpus"]
        who = self._who(last)
        for table, rows in ((latest, last), (gpus, who)):
            self._seen(table.spec.name, rows)
            table.replace(_written(table, rows), [], says, FENCE)
        for name, seconds in (("rollup_1m", 60), ("rollup_1h", HOUR_S)):
            closed = end_s - end_s % seconds
            self._tables[name].replace([], [], {**says, "closed": closed}, FENCE)

    def _append(self, parts: Sequence[pa.Table]) -> None:
        table = self._tables["readings"]
        for rows in parts:
            if rows.num_rows:
                table.append(_written(table, rows), "bench", self._number, FENCE)
                self._number += 1

    def _windows(self, numbered: pa.Table, seconds: int) -> pa.Table:
        """The windows of readings that have the number of their series."""
        ranks = ", ".join(f"quantile_disc(value, 0.{p}) AS p{p}" for p in (50, 95, 99))
        width = seconds * 1_000_000
        return self._run(
            f"""SELECT series, make_timestamptz(tick // {width} * {width}) AS start,
                  count(value) AS count, count(*) - count(value) AS missing,
                  min(value) AS min, max(value) AS max, avg(value) AS mean,
                  arg_max(value, tick) AS last,
                  make_timestamptz(max(tick) FILTER (value IS NOT NULL)) AS last_timestamp, {ranks}
                FROM rows GROUP BY ALL""",
            numbered,
        )

    def _last(self) -> pa.Table:
        """The last reading of every series."""
        rows = pa.concat_tables(self._newest)
        series = combine([rows.column(name) for name in SERIES_COLUMNS])
        numbered = _numbered(rows, series)
        found = self._run("SELECT arg_max(row, tick) AS row FROM rows GROUP BY series", numbered)
        return rows.take(found.column("row"))

    def _who(self, last: pa.Table) -> pa.Table:
        schema = TABLES["gpus"].schema
        told = [n for n in schema.names if n not in ("uuid", "mig", "first_seen", "last_seen")]
        taken = ", ".join(f"arg_max({name}, (timestamp, pod)) AS {name}" for name in told)
        made = self._run(
            f"""SELECT uuid, mig, {taken}, min(timestamp) AS first_seen,
                       max(timestamp) AS last_seen FROM rows GROUP BY ALL""",
            last,
        )
        return made.select(schema.names).cast(schema)

    def _run(self, sql: str, rows: pa.Table) -> pa.Table:
        self._database.register("rows", rows)
        return self._database.sql(sql).to_arrow_table()


def _cut(rows: pa.Table) -> tuple[pa.Table, list[pa.Table]]:
    """The newest readings moment by moment, and all others."""
    ticks = rows.column("timestamp").cast(pa.int64())
    distinct = pc.unique(ticks).sort()
    newest = distinct.slice(max(0, len(distinct) - SMALL_FILES))
    small = [rows.filter(pc.equal(ticks, tick)) for tick in newest]
    return rows.filter(pc.less(ticks, newest[0])), small


def _numbered(rows: pa.Table, series: Combined) -> pa.Table:
    """Readings as numbers: DuckDB groups these far faster than text."""
    return pa.table(
        {
            "series": series.codes,
            "tick": rows.column("timestamp").cast(pa.int64()),
            "value": rows.column("value"),
            "row": pa.arange(0, rows.num_rows),
        }
    )


def _told(windows: pa.Table, series: Combined) -> pa.Table:
    """Windows with the text of their series."""
    codes = windows.column("series").combine_chunks()
    texts = {
        name: values.dictionary_encode().take(codes)
        for name, values in zip(_SERIES_TEXT, series.columns, strict=True)
    }
    schema = [field.name for field in TABLES["rollup_1m"].schema if field.name != "day"]
    return pa.table(
        {name: texts[name] if name in texts else windows.column(name) for name in schema}
    )


def _plain(rows: pa.Table) -> pa.Table:
    """Readings without what a file keeps in its path."""
    schema = TABLES["latest"].schema
    return rows.select(schema.names).cast(schema)


def _written(table: LakeTable, rows: pa.Table) -> list[NewFile]:
    """Files of these rows, one a day, in the order of all files."""
    if not table.spec.partitions:
        return [_file(table, {}, rows)]
    moments = rows.column("timestamp" if "timestamp" in rows.column_names else "start")
    days = moments.cast(pa.date32())
    return [
        _file(table, {"day": str(day)}, rows.filter(pc.equal(days, day))) for day in pc.unique(days)
    ]


def _file(table: LakeTable, partition: dict[str, str], rows: pa.Table) -> NewFile:
    with table.files_of.writer(partition) as writer:
        for piece in in_order(table.spec, rows.combine_chunks()):
            writer.write(piece)
    assert writer.file is not None
    return writer.file


def moment_text(seconds: int) -> str:
    """A moment as requests say it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
