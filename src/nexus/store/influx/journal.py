"""The journal of a store: every commit is one point in it, and what is the case follows from all.

A point is written whole or not at all, which makes a commit of it: a batch's number, what came in
which minutes, how far derived tables are. Its time is the number of the commit. Numbers have no
gaps; whoever finds one begins anew from the last checkpoint, which has everything up to it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from nexus.store.influx.layout import OWN, ROLLUPS, place_of
from nexus.store.influx.lines import text_field
from nexus.store.influx.talking import Influx
from nexus.store.questions.rolled import day_stretch
from nexus.store.questions.spans import HOUR, floor

CHECKPOINT_EVERY: Final = 256  # commits
_KEPT: Final = 8 * CHECKPOINT_EVERY  # for readers that are behind


class Came(NamedTuple):
    """Rows of a minute, of an hour or of a day: how many, and between which times."""

    start: int
    rows: int
    low: int
    high: int
    ingested: int

    def plus(self, other: Came) -> Came:
        return Came(
            min(self.start, other.start),
            self.rows + other.rows,
            min(self.low, other.low),
            max(self.high, other.high),
            max(self.ingested, other.ingested),
        )


class Arrival(NamedTuple):
    """Readings came to this time with this commit."""

    low: int
    high: int
    version: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What one commit says; times are microseconds since 1970."""

    at: int
    app: str = ""  # whose batch it is, if it is one
    number: int = -1
    came: Mapping[str, Sequence[Came]] = field(default_factory=dict)  # rows that are new, by table
    counted: Mapping[str, Sequence[Came]] = field(default_factory=dict)  # all rows of these hours
    rolled: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # closed, and as of when
    latest: int = 0  # the version that the points of `latest` stand for
    removed: Mapping[str, Sequence[str]] = field(default_factory=dict)  # days, by table

    def to_json(self) -> str:
        said = {name: value for name, value in asdict(self).items() if value}
        return json.dumps({**said, "number": self.number}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Entry:
        said = json.loads(text)
        for name in ("came", "counted"):
            said[name] = {t: [Came(*c) for c in each] for t, each in said.get(name, {}).items()}
        said["rolled"] = {t: (c, u) for t, (c, u) in said.get("rolled", {}).items()}
        return cls(**said)


@dataclass(frozen=True, slots=True)
class State:
    """What is the case after some commit."""

    version: int = 0
    identity: str = ""
    apps: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)  # of tables: the last that changed it
    changed: Mapping[str, int] = field(default_factory=dict)  # and when that was
    held: Mapping[str, Mapping[int, Came]] = field(default_factory=dict)  # by table and hour
    arrivals: Sequence[Arrival] = ()  # that something derived does not stand for yet
    rolled: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    latest: int = 0
    removed: frozenset[str] = frozenset()  # days of readings

    def after(self, version: int, entry: Entry) -> State:
        """What is the case after one more commit."""
        tables = {*entry.came, *entry.counted, *entry.rolled, *entry.removed}
        if "readings" in entry.came:
            tables |= {"latest", "gpus"}
        new = [Arrival(c.low, c.high, version) for c in entry.came.get("readings", ()) if c.rows]
        made = replace(
            self,
            version=version,
            apps={**self.apps, entry.app: entry.number} if entry.app else self.apps,
            versions={**self.versions, **dict.fromkeys(tables, version)},
            changed={**self.changed, **dict.fromkeys(tables, entry.at)},
            held=self._held(entry),
            arrivals=[*self.arrivals, *new],
            rolled={**self.rolled, **entry.rolled},
            latest=max(self.latest, entry.latest),
            removed=self.removed | set(entry.removed.get("readings", ())),
        )
        return made._less_settled() if entry.rolled or entry.latest or entry.removed else made

    def to_json(self) -> str:
        said = {**asdict(self), "removed": sorted(self.removed)}
        said["held"] = {t: list(hours.values()) for t, hours in self.held.items()}
        return json.dumps(said, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> State:
        said = json.loads(text)
        said["held"] = {t: {c[0]: Came(*c) for c in each} for t, each in said["held"].items()}
        said["arrivals"] = [Arrival(*each) for each in said["arrivals"]]
        said["rolled"] = {t: (closed, upto) for t, (closed, upto) in said["rolled"].items()}
        return cls(**{**said, "removed": frozenset(said["removed"])})

    def _held(self, entry: Entry) -> Mapping[str, Mapping[int, Came]]:
        held = dict(self.held)
        for table, came in entry.came.items():
            hours = dict(held.get(table, {}))
            for each in came:
                start = floor(each.start, HOUR)
                known = hours.get(start)
                hours[start] = each._replace(start=start) if known is None else known.plus(each)
            held[table] = hours
        for table, counted in entry.counted.items():
            held[table] = {**held.get(table, {}), **{each.start: each for each in counted}}
        for table, days in entry.removed.items():
            gone, there = set(days), held.get(table, {})
            held[table] = {s: each for s, each in there.items() if day_of(s) not in gone}
        return held

    def _less_settled(self) -> State:
        """Without arrivals that everything derived stands for, or whose readings are gone."""
        settled, closed = -1, 0
        if all(name in self.rolled for name in ROLLUPS):
            settled = min(self.latest, *(upto for _, upto in self.rolled.values()))
            closed = min(closed for closed, _ in self.rolled.values())
        gone = [day_stretch(day) for day in self.removed]
        left = [
            a
            for a in self.arrivals
            if (a.version > settled or a.high >= closed)
            and not any(day.low <= a.low and a.high < day.high for day in gone)
        ]
        return replace(self, arrivals=left)


def day_of(micros: int) -> str:
    """The day of a moment, such as 2025-07-18."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC).date().isoformat()


class Journal:
    """The journal of one store, to be read by anybody and written by who has the turn."""

    def __init__(self, influx: Influx, identity: str) -> None:
        self._influx = influx
        self._identity = identity

    def caught_up(self, state: State) -> State:
        """What is the case now, from what was."""
        if state.identity != self._identity:
            return self._from_checkpoint()
        rows = self._rows(state.version)
        made = _folded(state, rows)
        return self._from_checkpoint() if made is None else made

    def append(self, state: State, turn: int, entry: Entry) -> State:
        """Commit; what is the case then."""
        made = state.after(state.version + 1, entry)
        line = f"journal,turn={turn} said={text_field(entry.to_json())} {made.version}\n"
        self._influx.write(OWN, line.encode())
        if made.version % CHECKPOINT_EVERY == 0:
            self._checkpoint(made)
        return made

    def _checkpoint(self, state: State) -> None:
        said = base64.b64encode(zlib.compress(state.to_json().encode())).decode()
        self._influx.write(OWN, f'checkpoint said="{said}" {state.version}\n'.encode())
        for name in ("journal", "checkpoint"):
            self._influx.tell(f'DELETE FROM "{name}" WHERE time < {state.version - _KEPT}u')

    def _from_checkpoint(self) -> State:
        rows = self._influx.tell(
            f"SELECT said FROM {place_of('checkpoint')} ORDER BY time DESC LIMIT 1"
        )
        state = State(identity=self._identity)
        if rows:
            text = zlib.decompress(base64.b64decode(rows[0]["said"])).decode()
            state = replace(State.from_json(text), identity=self._identity)
        made = _folded(state, self._rows(state.version))
        return state if made is None else made

    def _rows(self, after: int) -> list[dict[str, Any]]:
        return self._influx.tell(
            f"SELECT said FROM {place_of('journal')} WHERE time > {after}u ORDER BY time"
        )


def _folded(state: State, rows: Iterable[Mapping[str, Any]]) -> State | None:
    """What is the case after these commits; None if some are missing before them."""
    for row in rows:
        version = int(row["time"])
        if version > state.version + 1:
            return None
        state = state.after(version, Entry.from_json(row["said"]))
    return state
