"""What is known last: the series of late and each GPU, up to the newest commit.

The tables `latest` and `gpus` are a few seconds behind `readings`. What came since is read once
for each commit, not for each question, and kept in memory with the series that had a reading in
the last hour. Series that ended earlier, of pods that are long gone, stay in their table: there
may be any number of them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.delta.following import Pins
from nexus.store.delta.listing import Listing
from nexus.store.questions.conditions import Conditions
from nexus.store.questions.database import Database, FilesGone
from nexus.store.questions.devices import devices
from nexus.store.questions.held import Held, moment
from nexus.store.questions.known import FIRST, STATE
from nexus.store.questions.spans import HOUR, MINUTE, SECOND, Stretch, joined, outer
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.scalars import scalar

KEPT: Final = 3  # versions of it
FILES_ROWS: Final = 2_000_000  # of new readings, in one statement
ANEW_S: Final = 300.0  # after which it is read anew, without series that ended meanwhile
RECENT: Final = HOUR
BEYOND: Final = 2**62  # microseconds: more than the calendar has
SPARSE_WINDOWS: Final = 5
SPARSE_ROWS: Final = 200
_OTHERS: Final = [n for n in READING_SCHEMA.names if n not in (*SERIES_COLUMNS, "timestamp")]
_SERIES: Final = ", ".join(SERIES_COLUMNS)

Versions = tuple[int, int | None, int | None, int | None]


@dataclass
class LiveState:
    """All last readings, at one version of the tables."""

    era: int
    readings: int  # the version
    last: pa.Table  # each series that had a reading since the horizon, or was not in the table
    horizon: int | None  # None: all there are
    base_at: float  # when it was last read from the tables
    _database: Database
    _gpus: Listing | None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def devices(self) -> pa.Table:
        """Each GPU with what its last readings say of it."""
        with self._turn:
            return self._devices

    def uuids(self) -> list[str]:
        """Those of all GPUs, each once, in order."""
        with self._turn:
            return self._uuids

    @cached_property
    def _devices(self) -> pa.Table:
        files = [] if self._gpus is None else [file.path for file in self._gpus.files()]
        return devices(self._database, self.last, files)

    @cached_property
    def _uuids(self) -> list[str]:
        return sorted(self._devices.column("uuid").unique().to_pylist())


class Live:
    """The last readings of a store; safe for any number of threads."""

    def __init__(
        self,
        database: Database,
        recent_us: int = RECENT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._recent_us = recent_us
        self._clock = clock
        self._turn = threading.Lock()
        self._states: OrderedDict[Versions, LiveState] = OrderedDict()
        self._minutes: OrderedDict[str, tuple[Stretch, ...]] = OrderedDict()

    def at(self, pins: Pins) -> LiveState:
        """What is known at the pinned versions."""
        versions = _versions(pins)
        found = self._states.get(versions)
        if found is not None:
            return found
        with self._turn:
            found = self._states.get(versions)
            if found is None:
                found = self._made(pins)
                self._states[versions] = found
                while len(self._states) > KEPT:
                    self._states.popitem(last=False)
            return found

    def minutes(self, file: Held) -> tuple[Stretch, ...]:
        """The minutes of a file's readings: all that it spans, or, of few readings, those."""
        whole = outer(Stretch(file.low, file.high + 1), MINUTE)
        windows = (whole.high - whole.low) // MINUTE
        if windows <= SPARSE_WINDOWS or file.rows >= SPARSE_ROWS * windows:
            return (whole,)
        known = self._minutes.get(file.path)
        if known is None:
            known = self._looked_up(file) or (whole,)
            with self._turn:
                self._minutes[file.path] = known
                while len(self._minutes) > 1024:
                    self._minutes.popitem(last=False)
        return known

    def _looked_up(self, file: Held) -> tuple[Stretch, ...]:
        where = Conditions()
        source = where.bind(self._database.paths("readings", [file.path]))
        sql = (
            f"SELECT DISTINCT epoch_us(timestamp) // {MINUTE} AS minute"
            f" FROM read_parquet({source}, hive_partitioning = false)"
        )
        try:
            found = self._database.ask(sql, where.params).column("minute").to_pylist()
        except FilesGone:  # merged into another by now: its span must do
            return ()
        return tuple(joined(Stretch(m * MINUTE, (m + 1) * MINUTE) for m in found))

    # How a state is made

    def _made(self, pins: Pins) -> LiveState:
        readings = pins.tables.get("readings")
        version = -1 if readings is None else readings.version
        before = self._before(pins, version)
        if before is not None:
            last, horizon, base_at = before.last, before.horizon, before.base_at
            new = _present(pins, pins.arrivals.after(before.readings))
        else:
            horizon, base_at = self._horizon(pins), time.monotonic()
            since = moment(-BEYOND if horizon is None else horizon)
            last = self._stored(pins, "WHERE timestamp >= $since", {}, since=since)
            new = _present(pins, pins.arrivals.after(_both_stand_for(pins)))
        for files in _portions(new):
            last = self._merged(pins, last, horizon, files)
        return LiveState(
            pins.era, version, last, horizon, base_at, self._database, pins.tables.get("gpus")
        )

    def _horizon(self, pins: Pins) -> int | None:
        """Since when series are kept in memory: not the older ones of a table that has them.

        It goes by the newest reading, though not by one of a clock that is ahead of ours.
        """
        latest = pins.tables.get("latest")
        newest = max((file.high for file in latest.files()), default=None) if latest else None
        now = round(self._clock() * SECOND)
        return None if newest is None else min(newest, now) - self._recent_us

    def _before(self, pins: Pins, version: int) -> LiveState | None:
        """An earlier state to go on from, if that is less work than to read the tables."""
        states = [state for state in self._states.values() if state.era == pins.era]
        earlier = [state for state in states if state.readings <= version]
        newest = max(earlier, key=lambda state: state.readings, default=None)
        if newest is None or time.monotonic() - newest.base_at > ANEW_S:
            return None
        since = pins.arrivals.after(newest.readings)
        if since is None:
            return None
        stood = pins.arrivals.after(_both_stand_for(pins))
        if stood is None:
            return newest
        latest = pins.tables.get("latest")
        stored = _rows(list(latest.files())) if latest is not None else 0
        return newest if _rows(since) <= _rows(stood) + stored else None

    def _stored(
        self, pins: Pins, rest: str, tables: Mapping[str, pa.Table], **params: object
    ) -> pa.Table:
        """Rows of the table `latest`."""
        table = pins.tables.get("latest")
        files = [] if table is None else [file.path for file in table.files()]
        if not files:
            return STATE.empty_table()
        sql = (
            f"SELECT {', '.join(READING_SCHEMA.names)}, NULL::TIMESTAMPTZ AS {FIRST}"
            f" FROM read_parquet($files, hive_partitioning = false) {rest}"
        )
        paths = self._database.paths("latest", files)
        return self._database.ask(sql, {"files": paths, **params}, tables).cast(STATE)

    def _merged(
        self, pins: Pins, last: pa.Table, horizon: int | None, files: Sequence[Held]
    ) -> pa.Table:
        """The last readings with those of more files."""
        fresh = self._fresh(files)
        if horizon is not None:
            last = pa.concat_tables([last, self._passed_over(pins, last, horizon, fresh)])
        chosen = ", ".join(f"CASE WHEN newer THEN new_{n} ELSE old_{n} END AS {n}" for n in _TAKEN)
        old = ", ".join(f"o.{name} AS old_{name}" for name in _TAKEN)
        new = ", ".join(f"n.{name} AS new_{name}" for name in _TAKEN)
        sql = f"""
            WITH both_sides AS (
              SELECT {_SERIES}, {old}, {new}, least(o.{FIRST}, n.{FIRST}) AS {FIRST},
                     o.timestamp IS NULL OR n.timestamp >= o.timestamp AS newer
              FROM last_known AS o FULL JOIN fresh AS n USING ({_SERIES})
            )
            SELECT {_SERIES}, {chosen}, {FIRST} FROM both_sides"""
        found = self._database.ask(sql, {}, {"last_known": last, "fresh": fresh})
        return found.select(STATE.names).cast(STATE)

    def _fresh(self, files: Sequence[Held]) -> pa.Table:
        """The last reading of each series in some files."""
        where = Conditions()
        source = where.bind(self._database.paths("readings", [file.path for file in files]))
        taken = ", ".join(f"arg_max({name}, timestamp) AS {name}" for name in _NOT_NULL)
        sql = f"""
            SELECT {_SERIES}, {taken}, arg_max({{'v': value}}, timestamp).v AS value,
                   max(timestamp) AS timestamp, min(timestamp) AS {FIRST}
            FROM read_parquet({source}, hive_partitioning = false) GROUP BY ALL"""
        return self._database.ask(sql, where.params).select(STATE.names).cast(STATE)

    def _passed_over(self, pins: Pins, last: pa.Table, horizon: int, fresh: pa.Table) -> pa.Table:
        """What the table has of series that were not kept, for readings that came so late."""
        is_late = pc.less(fresh.column("timestamp").cast(pa.int64()), scalar(horizon, pa.int64()))
        late = fresh.filter(is_late)
        if not late.num_rows:
            return STATE.empty_table()
        return self._stored(
            pins,
            f"SEMI JOIN late USING ({_SERIES}) ANTI JOIN kept USING ({_SERIES})",
            {"late": late, "kept": last},
        )


_NOT_NULL: Final = [name for name in _OTHERS if name != "value"]
_TAKEN: Final = [*_OTHERS, "timestamp"]


def _versions(pins: Pins) -> Versions:
    found = (pins.tables.get(name) for name in ("latest", "gpus", "readings"))
    latest, gpus, readings = (None if table is None else table.version for table in found)
    return pins.era, latest, gpus, readings


def _both_stand_for(pins: Pins) -> int | None:
    """The version of `readings` that `latest` and `gpus` both stand for."""
    latest, gpus = pins.stands_for("latest"), pins.stands_for("gpus")
    return None if latest is None or gpus is None else min(latest, gpus)


def _present(pins: Pins, arrived: Sequence[Held] | None) -> list[Held]:
    """New files, or, if some were merged since, all that may hold their rows; None is all."""
    readings = pins.tables.get("readings")
    if readings is None:
        return []
    if arrived is None:
        return list(readings.files())
    if not arrived:
        return []
    hull = Stretch(min(f.low for f in arrived), max(f.high for f in arrived) + 1)
    there = readings.holding([hull])
    paths = {file.path for file in there}
    return list(arrived) if all(file.path in paths for file in arrived) else there


def _portions(files: Sequence[Held]) -> Iterator[list[Held]]:
    portion: list[Held] = []
    for file in files:
        if portion and _rows(portion) + file.rows > FILES_ROWS:
            yield portion
            portion = []
        portion.append(file)
    if portion:
        yield portion


def _rows(files: Sequence[Held]) -> int:
    return sum(file.rows for file in files)
