"""A store in InfluxDB to be read and added to: statements for pieces of a day, and points.

What is added becomes a commit of the journal with every portion; a portion that was cut short was
points without a commit, which a second copy finds, and counts as there.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.errors import StoreBusy
from nexus.lake.url import StoreUrl
from nexus.pipeline.moving.contexts import Contexts
from nexus.pipeline.moving.port import COPIED, DERIVED, Slice, Wait, day_of
from nexus.store.errors import TooMuch
from nexus.store.influx.journal import Came, Entry, Journal, State
from nexus.store.influx.layout import place_of
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.newest import LatestTable
from nexus.store.influx.reading import Reader, during
from nexus.store.influx.rolling import Roller
from nexus.store.influx.schema import check, version_of
from nexus.store.influx.talking import Influx
from nexus.store.influx.texts import Texts
from nexus.store.influx.url import InfluxUrl
from nexus.store.influx.writing import SPREAD_NS, Writer, came_of
from nexus.store.influx.writing import Contexts as Known
from nexus.store.port import ANY
from nexus.store.questions.database import Database
from nexus.store.questions.spans import MINUTE, Stretch, inner, joined, less, outer
from nexus.telemetry.reading import TIMESTAMP, in_one_piece
from nexus.telemetry.tables import TABLES

APP: Final = "copy"
PORTION_ROWS: Final = 100_000
READ_ROWS: Final = 100_000
REFUSED_ROWS: Final = 1_000
GRACE_US: Final = 30_000_000  # as a collector has it unless told otherwise
_NO_FILES: Final = StoreUrl("/")
_REFUSED: Final = pa.schema([f for f in TABLES["quarantine"].schema if f.name != "day"])
_STORED: Final = pa.schema(
    [
        pa.field("time", pa.int64()),
        *(
            pa.field(f.name, pa.string() if pa.types.is_string(f.type) else pa.int64())
            for f in _REFUSED
            if f.name != "raw"
        ),
        pa.field("raw", pa.string()),
    ]
)


class InfluxPlace:
    """See `Place`; its counts are of points that came, and some may have come twice."""

    counts_exactly = False

    def __init__(self, place: InfluxUrl) -> None:
        self.name = place.name
        self.place = place
        self._influx = Influx(place)
        self._last = State()
        self._reader = Reader(self._influx, Texts(self._influx))

    def days(self, table: str) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for came in self._state().held.get(table, {}).values():
            if came.rows:
                found[day_of(came.low)] = found.get(day_of(came.low), 0) + came.rows
        return found

    def rows(self, part: Slice) -> Iterator[pa.Table]:
        state = self._state()
        most = REFUSED_ROWS if part.table == "quarantine" else READ_ROWS
        for stretch in _pieces(state, part, most):
            yield from self._read(state, part, stretch)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """InfluxDB has no snapshots: what comes meanwhile may be seen."""
        yield

    def faults(self, part: Slice) -> list[str]:
        return []  # points have no other account of themselves

    def fresh(self, part: Slice) -> list[Stretch]:
        state = self._state()
        if part.table not in state.rolled:
            return []
        width, (closed, version) = DERIVED[part.table], state.rolled[part.table]
        late = [a for a in state.arrivals if a.version > version]
        stale = joined(outer(Stretch(a.low, a.high + MINUTE), width) for a in late)
        return inner(less([Stretch(part.low, min(part.high, closed))], stale), width)

    @contextmanager
    def writer(self, owner: str, wait: Wait | None) -> Iterator[InfluxWriter]:
        lock = InfluxLock(self.place, owner)
        database = Database(_NO_FILES)
        try:
            lock.acquire(wait or self._busy)
            yield InfluxWriter(lock, database)
        finally:
            lock.release()
            database.close()

    def close(self) -> None:
        self._influx.close()

    def _state(self) -> State:
        """What is the case now."""
        version, identity = version_of(self._influx)
        check(self.place, version)
        if version:
            self._last = Journal(self._influx, identity).caught_up(self._last)
        return self._last

    def _busy(self, who: str) -> None:
        raise StoreBusy(
            f"store {self.name}: {who} writes to it; one writer a store: stop that one, or wait for"
            " it with --wait"
        )

    def _read(self, state: State, part: Slice, stretch: Stretch) -> Iterator[pa.Table]:
        """The rows of a stretch; in halves where they are more than was thought."""
        try:
            found = (
                self._refused(stretch)
                if part.table == "quarantine"
                else self._reader.table(state, part.table, [stretch], ANY)
            )
        except TooMuch:
            middle = (stretch.low + stretch.high) // 2
            if middle == stretch.low:
                raise
            yield from self._read(state, part, Stretch(stretch.low, middle))
            yield from self._read(state, part, Stretch(middle, stretch.high))
            return
        if found.num_rows:
            names = [name for name in TABLES[part.table].schema.names if name != "day"]
            yield found.select(names)

    def _refused(self, stretch: Stretch) -> pa.Table:
        """What was refused in a stretch; its points lie a little later, each by its place."""
        listed = ", ".join(f'"{name}"' for name in _STORED.names if name != "time")
        spread = Stretch(stretch.low, stretch.high + SPREAD_NS // 1000)
        found = self._influx.ask(
            f"SELECT {listed} FROM {place_of('quarantine')} WHERE {during(spread)}", None, _STORED
        )
        refused = found.column("refused")
        is_in = pc.and_(pc.greater_equal(refused, stretch.low), pc.less(refused, stretch.high))
        found = found.filter(is_in)
        raw = [base64.b64decode(text) for text in found.column("raw").to_pylist()]
        columns = {f.name: found.column(f.name) for f in _REFUSED}
        columns["refused"] = found.column("refused").cast(TIMESTAMP)
        columns["raw"] = pa.chunked_array([pa.array(raw, pa.binary())])
        return pa.table(columns).cast(_REFUSED)


class InfluxWriter:
    """See `Writer`; rollups and `latest` are computed as a collector does it."""

    tables = COPIED
    portion_rows = PORTION_ROWS
    derives = True

    def __init__(self, lock: InfluxLock, database: Database) -> None:
        self._lock = lock
        self._known = Known()
        reader = Reader(lock.influx, Texts(lock.influx))
        self._rollers = [Roller(name, reader, database) for name in DERIVED]
        self._latest = LatestTable(reader, database)

    def add(self, part: Slice, rows: pa.Table) -> pa.Table:
        writer = Writer(self._lock.influx, self._known)
        came: list[Came]
        if part.table == "readings":
            contexts = Contexts(rows)
            writer.add(contexts.readings, contexts.told)
            came = writer.came
        else:
            writer.refuse(rows)
            refused = in_one_piece(rows.column("refused")).cast(pa.int64()).to_numpy()
            came = came_of(refused, refused)
        state, _ = self._lock.held()
        number = state.apps.get(APP, -1) + 1
        self._lock.commit(Entry(_now_us(), APP, number, {part.table: came}))
        return rows.slice(0, 0)

    def settle(self, part: Slice) -> None:
        """Every portion was a commit of its own."""

    def derive(self) -> None:
        for roller in self._rollers:
            roller.step(self._lock, _now_us(), GRACE_US, 0, drain=True)
        version = self._latest.step(self._lock.held()[0])
        if version is not None:
            self._lock.commit(Entry(_now_us(), latest=version))


def _pieces(state: State, part: Slice, rows: int) -> list[Stretch]:
    """A day in stretches of about so many rows."""
    hours = state.held.get(part.table, {}).values()
    near = [c for c in hours if c.rows and c.low < part.high and c.high >= part.low]
    if not near:
        return []
    low = max(part.low, min(came.low for came in near))
    high = min(part.high, max(came.high for came in near) + 1)
    count = -(-sum(came.rows for came in near) // rows)
    width = max(1, -(-(high - low) // count))
    return [Stretch(at, min(at + width, high)) for at in range(low, high, width)]


def _now_us() -> int:
    return time.time_ns() // 1000
