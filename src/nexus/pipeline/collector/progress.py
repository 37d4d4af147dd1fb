"""How a collector is doing: written by the threads that work, read by those that show it.

`Progress` is the one place they share; `view` is a picture of it that does not change any more.
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from nexus.observe.metrics import Histogram, HistogramState
from nexus.pipeline.sink.port import Stored
from nexus.queue.port import Bounds

RATE_WINDOW_S: Final = 15.0
BATCH_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
Offsets = Mapping[int, int]


class Phase(Enum):
    """What a collector is at."""

    STARTING = "starting"
    STANDBY = "standing by"
    WAITING = "waiting for the queue"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StoreView:
    """One store: what its stream has done, and whether it goes on."""

    url: str
    batches: int = 0
    replayed: int = 0
    readings: int = 0
    duplicates: int = 0
    late: int = 0
    quarantined: int = 0
    failures: int = 0
    problem: str = ""
    batch_s: float = 0.0  # of the last batch
    ended_at: float | None = None  # when the last batch was committed
    number: int = -1  # of the last batch
    version: int | None = None  # of the table of readings
    ends: Offsets = field(default_factory=dict)  # what is stored, by partition
    readings_last: int = 0
    place: Mapping[str, Any] = field(default_factory=dict)  # the same in the source's own words


@dataclass(frozen=True, slots=True)
class ChoreView:
    """Work beside the streams: what it did last, and why it failed."""

    runs: int = 0
    failures: int = 0
    seconds: float = 0.0
    ended_at: float | None = None
    problem: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """A queue that we take messages out of ourselves: what waits there, and how full it is."""

    waiting: Mapping[int, int]  # messages by partition
    oldest_s: float | None = None  # how long the oldest waits
    expired: int = 0  # messages whose time was up before anybody took them
    taken: int = 0  # messages that were taken out by this process
    conflicts: int = 0  # how often a late message was in the way
    db_bytes: int = 0
    in_use_bytes: int = 0
    quota_bytes: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """A collector at one moment, `at` on its own clock."""

    phase: Phase
    note: str
    at: float
    began_at: float
    since: float  # when this phase began
    stores: tuple[StoreView, ...]
    rate: float
    bounds: Mapping[int, Bounds]
    queue_problem: str
    chores: Mapping[str, ChoreView]
    phases_s: Mapping[str, float]
    batch_seconds: HistogramState
    held: Held | None = None

    def total(self, name: str) -> int:
        return sum(int(getattr(store, name)) for store in self.stores)

    @property
    def problem(self) -> str:
        """The first thing that keeps readings from being stored."""
        return self.queue_problem or next((s.problem for s in self.stores if s.problem), "")

    @property
    def ended_at(self) -> float | None:
        """When the store that is furthest behind committed its last batch."""
        times = [store.ended_at for store in self.stores]
        return None if None in times or not times else min(t for t in times if t is not None)

    @property
    def batch_s(self) -> float | None:
        times = [store.batch_s for store in self.stores if store.batches]
        return max(times, default=None)

    @property
    def is_lagging(self) -> bool:
        """Whether some stores take nothing while others do: those wait for nobody."""
        return not self.queue_problem and 0 < sum(bool(s.problem) for s in self.stores) < len(
            self.stores
        )

    def lag_of(self, store: StoreView) -> int | None:
        """Messages that one store does not have yet; None while nobody can tell."""
        if self.held is not None or not self.bounds or not store.ends:
            return None
        behind = (b.end - store.ends.get(p, b.start) for p, b in self.bounds.items())
        return sum(max(0, messages) for messages in behind)

    def lags(self) -> dict[int, int]:
        """Messages by partition that some store does not have yet; unknown partitions from 0."""
        if self.held is not None:
            return dict(self.held.waiting)
        stored = self.stored()
        return {p: max(0, b.end - stored.get(p, b.start)) for p, b in self.bounds.items()}

    @property
    def lag(self) -> int | None:
        """Messages that wait; None while nobody can tell."""
        if self.held is not None:
            return sum(self.held.waiting.values())
        if not self.bounds or not all(store.ends for store in self.stores):
            return None
        return sum(self.lags().values())

    @property
    def has_lag(self) -> bool:
        """Whether there is something to do, as far as is known."""
        return sum(self.lags().values()) > 0

    def stored(self) -> dict[int, int]:
        """How far every store has come, by partition."""
        known = [store.ends for store in self.stores]
        shared = set(known[0]).intersection(*known[1:]) if known else set()
        return {p: min(ends[p] for ends in known) for p in sorted(shared)}


class Progress:
    """Shared by the threads of one collector."""

    def __init__(self, stores: tuple[str, ...], clock: Callable[[], float]) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._began_at = self._since = clock()
        self._phase, self._note = Phase.STARTING, ""
        self._stores = {url: StoreView(url) for url in stores}
        self._recent: deque[tuple[float, float, int]] = deque()
        self._bounds: Mapping[int, Bounds] = {}
        self._queue_problem = ""
        self._chores: dict[str, ChoreView] = {}
        self._phases: Counts[str] = Counts()
        self._batch_seconds = Histogram(BATCH_BOUNDS_S)
        self._held: Held | None = None

    def enter(self, phase: Phase, note: str = "") -> bool:
        """What the collector is at now; whether that is news."""
        with self._lock:
            news = (phase, note) != (self._phase, self._note)
            if phase is not self._phase:
                self._since = self.clock()
            self._phase, self._note = phase, note
            return news

    def stored(self, url: str, number: int, stored: Stored, seconds: float) -> None:
        """A batch is in its store."""
        now = self.clock()
        with self._lock:
            store = self._stores[url]
            self._stores[url] = replace(
                store,
                batches=store.batches + 1,
                replayed=store.replayed + stored.replayed,
                readings=store.readings + stored.readings,
                duplicates=store.duplicates + stored.duplicates,
                late=store.late + stored.late,
                quarantined=store.quarantined + stored.quarantined,
                batch_s=seconds,
                ended_at=now,
                problem="",
                number=number,
                version=store.version if stored.version is None else stored.version,
                readings_last=stored.readings,
            )
            self._batch_seconds.observe(seconds)
            if url == next(iter(self._stores)):
                self._recent.append((now, seconds, stored.readings))
                self._forget(now)

    def reached(
        self,
        url: str,
        number: int,
        ends: Offsets,
        phases_s: Mapping[str, float],
        place: Mapping[str, Any] | None = None,
    ) -> None:
        """Spark has committed a batch, or found that there is none to make."""
        with self._lock:
            store = self._stores[url]
            self._stores[url] = replace(
                store,
                ends=dict(ends),
                number=max(store.number, number),
                place=dict(place or {}),
            )
            self._phases.update(phases_s)

    def failing(self, url: str, problem: str) -> None:
        with self._lock:
            store = self._stores[url]
            self._stores[url] = replace(store, problem=problem, failures=store.failures + 1)

    def queue(self, bounds: Mapping[int, Bounds] | None, problem: str = "") -> None:
        """What the queue says; None when it does not answer."""
        with self._lock:
            self._queue_problem = problem
            if bounds is not None:
                self._bounds = MappingProxyType(dict(bounds))

    def holds(self, held: Held) -> None:
        """What a queue of our own says; it answers."""
        with self._lock:
            self._queue_problem = ""
            self._held = held

    def chore(self, name: str, seconds: float, problem: str, facts: Mapping[str, object]) -> None:
        """One run of work beside the streams."""
        now = self.clock()
        with self._lock:
            before = self._chores.get(name, ChoreView())
            self._chores[name] = ChoreView(
                before.runs + 1,
                before.failures + bool(problem),
                seconds,
                before.ended_at if problem else now,
                problem,
                before.facts if problem else dict(facts),
            )

    def view(self) -> View:
        now = self.clock()
        with self._lock:
            self._forget(now)
            return View(
                self._phase,
                self._note,
                now,
                self._began_at,
                self._since,
                tuple(self._stores.values()),
                self._rate(now),
                self._bounds,
                self._queue_problem,
                dict(self._chores),
                dict(self._phases),
                self._batch_seconds.state(),
                self._held,
            )

    def _rate(self, now: float) -> float:
        """Readings stored in a second, lately; a batch's own time counts as well."""
        if not self._recent:
            return 0.0
        ended, seconds, _ = self._recent[0]
        span = max(now - (ended - seconds), seconds, 1e-3)
        return sum(readings for _, _, readings in self._recent) / span

    def _forget(self, now: float) -> None:
        """The last batch counts until twice its own time has passed, however long that is."""
        while self._recent:
            ended, seconds, _ = self._recent[0]
            if ended >= now - max(RATE_WINDOW_S, 2 * seconds):
                return
            self._recent.popleft()
