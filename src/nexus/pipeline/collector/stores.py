"""The stores that a collector writes to, each with its lock, its sink, and its work beside.

A kind of store is one class here; the collector itself does not ask which kind it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import SparkSession

from nexus.lake.lock import WriterLock
from nexus.lake.maintenance import Limits, Report, maintain
from nexus.lake.url import StoreUrl, parse_store_url
from nexus.pipeline.collector.conf import DERIVE_POOL
from nexus.pipeline.derive.follower import Follower
from nexus.pipeline.derive.options import DeriveOptions
from nexus.pipeline.derive.progress import Progress
from nexus.pipeline.sink.delta_sink import DeltaSink
from nexus.pipeline.sink.port import Sink
from nexus.pipeline.table_source import register
from nexus.queue.url import QueueUrl
from nexus.settings.collector import RETAINED, CollectorSection
from nexus.settings.units import UNLIMITED
from nexus.store.opening import scheme_of

if TYPE_CHECKING:
    from nexus.etcd import Fence

Token = Callable[[], "Fence | None"]
FIRST_UPKEEP_S: Final = 120.0
RETENTION: Final = tuple(f"retention_{name}_ms" for name in RETAINED)


class Work(Protocol):
    """Does what is due, or with `drain` all there is; says if more is left, and what it did."""

    def __call__(
        self, stopped: Callable[[], bool], *, drain: bool
    ) -> tuple[bool, Mapping[str, object]]: ...


@dataclass(frozen=True, slots=True)
class Chore:
    """Work beside a stream, done again and again."""

    name: str
    every_s: float
    first_s: float
    run: Work
    drains: bool = False  # whether a collector that ends by itself does all of it first
    cancel: Callable[[], None] = lambda: None  # end what runs; it is done again later


class Store(Protocol):
    """One store, for the life of one collector."""

    url: str

    def acquire(self, wait: Callable[[str], None] | None) -> None:
        """The right to write; `wait` is called with who has it, and ends the waiting by raising."""

    def lost(self) -> bool:
        """Whether another has taken over."""

    def take_up(self, changed: CollectorSection) -> None:
        """Settings that changed while a collector runs; from any thread."""

    def wants(self, queue: QueueUrl, *, alone: bool) -> Mapping[str, str]:
        """What the source is to be told; `alone` says that there is no other store."""

    def sink(self, spark: SparkSession, token: Token | None = None) -> Sink:
        """`token` gives that of who leads the queue's collectors, where somebody does."""

    def chores(self, spark: SparkSession) -> Sequence[Chore]: ...

    def release(self) -> None:
        """Let others write; safe to call twice."""


def open_store(url: str, own: CollectorSection) -> Store:
    """The store of an address; StoreError says what would be right."""
    scheme = scheme_of(url)
    return KINDS[scheme](url, own) if scheme in KINDS else DeltaStore(parse_store_url(url), own)


def _etcd(url: str, own: CollectorSection) -> Store:
    from nexus.pipeline.collector.etcd_store import EtcdStore  # noqa: PLC0415 - gRPC is dear
    from nexus.store.etcd.url import parse_etcd_store_url  # noqa: PLC0415

    return EtcdStore(parse_etcd_store_url(url), own)


def _postgres(url: str, own: CollectorSection) -> Store:
    from nexus.pipeline.collector.postgres_store import PostgresStore  # noqa: PLC0415
    from nexus.store.postgres.url import parse_postgres_url  # noqa: PLC0415

    return PostgresStore(parse_postgres_url(url), own)


def _influx(url: str, own: CollectorSection) -> Store:
    from nexus.pipeline.collector.influx_store import InfluxStore  # noqa: PLC0415
    from nexus.store.influx.url import parse_influx_url  # noqa: PLC0415

    return InfluxStore(parse_influx_url(url), own)


KINDS: Final[Mapping[str, Callable[[str, CollectorSection], Store]]] = {
    "etcd": _etcd,
    "influxdb": _influx,
    "postgresql": _postgres,
    "postgres": _postgres,
}


@dataclass
class DeltaStore:
    """Delta tables on a disk or on object storage."""

    place: StoreUrl
    own: CollectorSection
    lock: WriterLock = field(init=False)

    def __post_init__(self) -> None:
        self.url = str(self.place)
        self.lock = WriterLock(self.place, self.own.name)

    def acquire(self, wait: Callable[[str], None] | None) -> None:
        if wait is None:
            self.lock.acquire()
        else:
            self.lock.acquire(lambda: wait(self.lock.held_by() or "another collector"))

    def lost(self) -> bool:
        return self.lock.lost()

    def take_up(self, changed: CollectorSection) -> None:
        self.own = replace(self.own, **{name: getattr(changed, name) for name in RETENTION})

    def release(self) -> None:
        self.lock.release()

    def wants(self, queue: QueueUrl, *, alone: bool) -> Mapping[str, str]:
        return {}

    def sink(self, spark: SparkSession, token: Token | None = None) -> Sink:
        register(spark)
        return DeltaSink(spark, self.place, self.lock.fence)

    def chores(self, spark: SparkSession) -> Sequence[Chore]:
        return [chore for chore in (self._derive(spark), self._maintain()) if chore is not None]

    def maintain(self, stopped: Callable[[], bool]) -> Report:
        limits = Limits(retention=self.own.retention)
        return maintain(self.place, self.lock.fence, limits=limits, stopped=stopped)

    def derive_options(self) -> DeriveOptions:
        every, grace = self.own.derive_interval_ms / 1000, self.own.grace_ms / 1000
        return DeriveOptions(interval_s=every, grace_s=grace, pool=DERIVE_POOL)

    def _derive(self, spark: SparkSession) -> Chore | None:
        if not self.own.derive:
            return None
        options = self.derive_options()
        follower = Follower(spark, self.place, self.lock.fence, options=options)

        def run(stopped: Callable[[], bool], *, drain: bool) -> tuple[bool, Mapping[str, Any]]:
            progress = follower.step(drain=drain, stopped=stopped)
            return any(t.unfinished for t in progress.tables.values()), derived(progress)

        every = options.interval_s
        return Chore("derive", every, every, run, drains=True, cancel=follower.cancel)

    def _maintain(self) -> Chore | None:
        if self.own.maintain_interval_ms == UNLIMITED:
            return None

        def run(stopped: Callable[[], bool], *, drain: bool) -> tuple[bool, Mapping[str, Any]]:
            report = self.maintain(stopped)
            return not report.complete, upkeep(report)

        every = self.own.maintain_interval_ms / 1000
        return Chore("maintain", every, min(every, FIRST_UPKEEP_S), run)


def derived(progress: Progress) -> dict[str, object]:
    """How far the derived tables are: the versions they stand for, and the windows they hold."""
    tables = progress.tables
    closed = {name: t.closed.isoformat() for name, t in tables.items() if t.closed is not None}
    return {
        "readings_version": progress.version,
        "versions": {name: t.version for name, t in tables.items()},
        "closed": closed,
    }


def upkeep(report: Report) -> dict[str, object]:
    """A maintenance run in a few numbers."""
    tables = report.tables
    return {
        "files_merged": sum(t.merged for t in tables),
        "days_removed": sum(t.days for t in tables),
        "files_removed": sum(t.vacuumed for t in tables),
        "problems": [f"{t.table}: {t.problem}" for t in tables if t.problem],
    }
