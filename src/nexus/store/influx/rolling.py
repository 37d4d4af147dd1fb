"""Rollups follow readings: windows that are due are read, computed in columns, and written back.

InfluxDB's continuous queries are not used: they compute each window once, shortly after its end,
and never see what comes late; and InfluxQL tells neither how many readings had no value, nor when
the last value was, and its percentiles are of other ranks than those of the other stores. Here a
window that readings came to is computed again from all its readings. Work that was cut short is
done again, and its points take their own places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.influx.journal import Came, Entry, State, day_of
from nexus.store.influx.layout import CONTEXT, VALUES, place_of
from nexus.store.influx.lines import lines, series_key, text_fields
from nexus.store.influx.lock import InfluxLock
from nexus.store.influx.reading import READING, Reader, during, each_once
from nexus.store.port import ANY, Selection
from nexus.store.questions import parts
from nexus.store.questions.database import Database
from nexus.store.questions.rolled import WIDTHS
from nexus.store.questions.spans import HOUR, MINUTE, Stretch, floor, outer
from nexus.store.questions.summary import PERCENTS
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import TIMESTAMP, in_one_piece

ROWS: Final = 400_000  # about so many readings are computed with at once
_GROUPS: Final = ("start", "series")


def _rank(percent: int) -> str:
    """The least value that so many percent of the values do not exceed."""
    return f"sorted[(count * {percent} + 99) // 100]"


_SORTED: Final = ", list_sort(list(value) FILTER (value IS NOT NULL)) AS sorted"
_RANKS: Final = "".join(f", {_rank(percent)} AS {name}" for name, percent in PERCENTS.items())


class Roller:
    """Keeps one rollup up to date; times are microseconds."""

    def __init__(self, name: str, reader: Reader, database: Database) -> None:
        self.name = name
        self._reader = reader
        self._database = database
        self._width = WIDTHS[name]
        self._late_at = -(2**62)

    def step(
        self,
        lock: InfluxLock,
        now: int,
        grace: int,
        late_every: int,
        stopped: Callable[[], bool] = lambda: False,
        *,
        drain: bool = False,
    ) -> Mapping[str, object]:
        """Compute what is due; how far it is then."""
        state, _ = lock.held()
        before = state.rolled.get(self.name, (0, 0))
        closed = max(before[0], self._next_closed(state, now, grace))
        is_late_due = drain or now - self._late_at >= late_every
        # What came to windows that are stored comes in bursts, and waits for its turn.
        waits = not is_late_due and any(
            self._is_late(a.low, a.version, before, state.version, state) for a in state.arrivals
        )
        upto = before[1] if waits else state.version
        due = self._due(state, before, closed, upto)
        counted: dict[str, list[Came]] = {self.name: []}
        for hour, windows in groupby(due, lambda start: floor(start, HOUR)):
            if stopped():
                return {"closed": before[0], "version": before[1]}
            rows = self._compute(state, list(windows))
            counted[self.name] += self._counted(hour, now)
            known = state.held.get("readings", {}).get(hour)
            if self._width == HOUR and known is not None:
                # Copies under other contexts were counted when they came.
                counted.setdefault("readings", []).append(known._replace(rows=rows))
        if not waits:
            self._late_at = now
        if (closed, upto) != before:
            lock.commit(Entry(now, counted=counted, rolled={self.name: (closed, upto)}))
        return {"closed": closed, "version": upto}

    def _next_closed(self, state: State, now: int, grace: int) -> int:
        """A window closes when it is over for a while, and not before there are readings."""
        hours = state.held.get("readings", {})
        if not hours:
            return 0
        newest = max(came.high for came in hours.values())
        return min(floor(now - grace, self._width), floor(newest, self._width) + self._width)

    def _due(self, state: State, before: tuple[int, int], closed: int, upto: int) -> list[int]:
        """Windows that close now, and closed ones that readings came to since."""
        found: set[int] = set()
        for arrival in state.arrivals:
            low, high = outer(Stretch(arrival.low, arrival.high + 1), self._width)
            for start in range(low, min(high, closed), self._width):
                if start >= before[0] or self._is_late(start, arrival.version, before, upto, state):
                    found.add(start)
        return sorted(found)

    def _is_late(
        self, start: int, version: int, before: tuple[int, int], upto: int, state: State
    ) -> bool:
        """Whether readings of a version came to a window that is stored, and are still there.

        Of days of which readings were removed, what is rolled up is all there is.
        """
        is_new = before[1] < version <= upto
        return is_new and start < before[0] and day_of(start) not in state.removed

    def _compute(self, state: State, windows: Sequence[int]) -> int:
        """Compute windows of one hour anew; how many readings they have."""
        rows = 0
        for stretch, which in self._pieces(state, windows):
            made = self._windows(state, stretch, which)
            chosen = made.filter(pc.is_in(made.column("start"), value_set=pa.array(windows)))
            rows += pc.sum(pc.add(chosen.column("count"), chosen.column("missing"))).as_py() or 0
            self._write(state, chosen)
        return rows

    def _pieces(self, state: State, windows: Sequence[int]) -> Iterator[tuple[Stretch, Selection]]:
        """What is read at once: all windows, or fewer, or of some GPUs alone."""
        hour = state.held.get("readings", {}).get(floor(windows[0], HOUR))
        rows = hour.rows if hour is not None else 0
        cuts = 1 + rows // ROWS
        if cuts == 1 or self._width == MINUTE:
            step = -(-len(windows) // cuts)
            for start in range(0, len(windows), step):
                some = windows[start : start + step]
                yield Stretch(some[0], some[-1] + self._width), ANY
            return
        uuids = self._reader.texts.all_uuids(state.identity, state.version)
        for cut in range(cuts):
            if some_uuids := tuple(uuids[cut::cuts]):
                stretch = Stretch(windows[0], windows[-1] + self._width)
                yield stretch, Selection(uuids=some_uuids)

    def _windows(self, state: State, stretch: Stretch, which: Selection) -> pa.Table:
        rows = self._reader.rows(state, "readings", READING, [stretch], which)
        rows, told = each_once(rows, self._reader.texts.of(state.identity, rows.column(CONTEXT)))
        table = pa.table(
            {
                "timestamp": rows.column("time").cast(TIMESTAMP),
                "value": rows.column("value"),
                "series": pa.array(told.series_of_rows()),
                CONTEXT: rows.column(CONTEXT).cast(pa.string()),
            }
        )
        start = f"{parts.window_start('timestamp', self._width)} AS start"
        made = parts.of_readings("rows", "TRUE", (start, "series"), (CONTEXT,), _SORTED)
        sql = parts.together([made], _GROUPS, (CONTEXT,), _RANKS)
        times = "epoch_us(start) AS start, epoch_us(last_timestamp) AS last_timestamp"
        return self._database.ask(f"SELECT * REPLACE ({times}) FROM ({sql})", {}, {"rows": table})

    def _write(self, state: State, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        distinct = pc.dictionary_encode(in_one_piece(rows.column(CONTEXT)))
        told = self._reader.texts.of(state.identity, distinct.dictionary).texts()
        said = [told[name].to_pylist() for name in SERIES_COLUMNS]
        keys = pa.array(
            [
                series_key(self.name, dict(zip(SERIES_COLUMNS, row, strict=True)))
                for row in zip(*said, strict=True)
            ],
            pa.string(),
        )
        fields = [(n, in_one_piece(rows.column(n))) for n in ("count", "missing", *VALUES)]
        fields.append(("last_timestamp", in_one_piece(rows.column("last_timestamp"))))
        fields.append((CONTEXT, text_fields(in_one_piece(rows.column(CONTEXT)))))
        for body in lines(keys.take(distinct.indices), fields, in_one_piece(rows.column("start"))):
            self._reader.influx.write(self.name, body)

    def _counted(self, hour: int, now: int) -> list[Came]:
        """How many windows of an hour are stored."""
        span = during(Stretch(hour, hour + HOUR))
        rows = self._reader.influx.tell(
            f'SELECT count("count") AS "rows" FROM {place_of(self.name)} WHERE {span}'
        )
        count = int(rows[0]["rows"]) if rows else 0
        return [Came(hour, count, hour, hour + HOUR - self._width, now)] if count else []
