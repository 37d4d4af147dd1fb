"""What the collector counts, under names that begin with `nexus_collector_`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nexus.observe.metrics import FamilySnapshot, HistogramState, Kind, Registry
from nexus.pipeline.collector.progress import Phase, StoreView, View

Rows = Iterable[tuple[tuple[str, ...], float | HistogramState]]
Read = Callable[[View], Rows]


class CollectorRegistry(Registry):
    """A registry whose metrics are read off a view when somebody asks."""

    def __init__(self, look: Callable[[], View]) -> None:
        super().__init__()
        self._look = look

    def snapshot(self) -> list[FamilySnapshot]:
        view = self._look()
        return [
            FamilySnapshot(
                kind, f"nexus_collector_{name}", meaning, tuple(labels), list(read(view))
            )
            for kind, name, meaning, labels, read in METRICS
        ]


def _one(read: Callable[[View], float | None]) -> Read:
    def rows(view: View) -> Rows:
        value = read(view)
        return [] if value is None else [((), float(value))]

    return rows


def _by_store(name: str) -> Read:
    def value(store: StoreView) -> float:
        return float(getattr(store, name))

    return lambda view: [((store.url,), value(store)) for store in view.stores]


def _ends(view: View) -> Rows:
    return [((str(partition),), float(end)) for partition, end in view.stored().items()]


def _lags(view: View) -> Rows:
    return [((str(partition),), float(lag)) for partition, lag in view.lags().items()]


def _since_commit(view: View) -> float | None:
    return None if view.ended_at is None else view.at - view.ended_at


def _versions(view: View) -> Rows:
    return [((s.url,), float(s.version)) for s in view.stores if s.version is not None]


def _store_lags(view: View) -> Rows:
    lags = ((store.url, view.lag_of(store)) for store in view.stores)
    return [((url,), float(lag)) for url, lag in lags if lag is not None]


def _stores_away(view: View) -> Rows:
    return [((store.url,), float(bool(store.problem))) for store in view.stores]


def _held(name: str) -> Read:
    """Of a queue that this collector takes messages out of; nothing of another."""
    return _one(lambda view: None if view.held is None else getattr(view.held, name))


def _chores(name: str) -> Read:
    return lambda view: [((n,), float(getattr(c, name))) for n, c in view.chores.items()]


METRICS: Sequence[tuple[Kind, str, str, Sequence[str], Read]] = [
    (
        "counter",
        "readings_stored",
        "Readings that are new in a store.",
        ("store",),
        _by_store("readings"),
    ),
    (
        "counter",
        "readings_duplicate",
        "Readings that a store had already, or twice in a batch.",
        ("store",),
        _by_store("duplicates"),
    ),
    (
        "counter",
        "readings_late",
        "Readings not newer than their series: they had to be looked up.",
        ("store",),
        _by_store("late"),
    ),
    (
        "counter",
        "readings_quarantined",
        "Readings and messages that were refused.",
        ("store",),
        _by_store("quarantined"),
    ),
    ("counter", "batches", "Batches that were stored.", ("store",), _by_store("batches")),
    (
        "counter",
        "batches_replayed",
        "Batches that a store had already.",
        ("store",),
        _by_store("replayed"),
    ),
    (
        "counter",
        "batch_failures",
        "Batches that failed and were tried again.",
        ("store",),
        _by_store("failures"),
    ),
    (
        "histogram",
        "batch_seconds",
        "How long a batch took to store.",
        (),
        lambda v: [((), v.batch_seconds)],
    ),
    (
        "counter",
        "phase_seconds",
        "Where the streams' time went, by Spark's names.",
        ("phase",),
        lambda v: [((n,), s) for n, s in v.phases_s.items()],
    ),
    (
        "gauge",
        "readings_per_second",
        "Readings stored in a second, lately.",
        (),
        _one(lambda v: v.rate),
    ),
    ("gauge", "offset", "How far a partition is stored.", ("partition",), _ends),
    (
        "gauge",
        "lag_messages",
        "Messages of a partition that are not stored yet.",
        ("partition",),
        _lags,
    ),
    (
        "gauge",
        "store_lag_messages",
        "Messages that a store does not have yet.",
        ("store",),
        _store_lags,
    ),
    (
        "gauge",
        "store_failing",
        "1 while a store takes nothing: its batches are tried again.",
        ("store",),
        _stores_away,
    ),
    ("gauge", "seconds_since_commit", "Since the last batch was stored.", (), _one(_since_commit)),
    ("gauge", "table_version", "The version of the table of readings.", ("store",), _versions),
    (
        "gauge",
        "queue_away",
        "1 while the queue does not answer.",
        (),
        _one(lambda v: bool(v.queue_problem)),
    ),
    (
        "gauge",
        "queue_depth_messages",
        "Messages that wait in a queue in etcd.",
        (),
        _one(lambda v: None if v.held is None else v.lag),
    ),
    ("gauge", "queue_oldest_seconds", "How long the oldest waits there.", (), _held("oldest_s")),
    (
        "counter",
        "queue_expired_messages",
        "Messages whose time was up before they were collected: they are lost.",
        (),
        _held("expired"),
    ),
    (
        "counter",
        "queue_taken_messages",
        "Messages that were deleted there when every store had them.",
        (),
        _held("taken"),
    ),
    (
        "counter",
        "queue_conflicts",
        "Deletes that a late message was in the way of.",
        (),
        _held("conflicts"),
    ),
    ("gauge", "queue_database_bytes", "The size of etcd's database.", (), _held("db_bytes")),
    (
        "gauge",
        "queue_database_used_bytes",
        "What of it is in use.",
        (),
        _held("in_use_bytes"),
    ),
    ("gauge", "queue_quota_bytes", "Its quota; 0 is none.", (), _held("quota_bytes")),
    (
        "gauge",
        "standing_by",
        "1 while another collector has the queue or the store.",
        (),
        _one(lambda v: v.phase is Phase.STANDBY),
    ),
    ("counter", "job_runs", "Runs of the work beside the streams.", ("job",), _chores("runs")),
    ("counter", "job_failures", "Those that failed.", ("job",), _chores("failures")),
    ("gauge", "job_seconds", "How long the last run took.", ("job",), _chores("seconds")),
]
