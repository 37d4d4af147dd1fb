"""What stores in a database have in common, as the collector has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import SparkSession

from nexus.lake.errors import StoreOut
from nexus.observe.logs import get_logger
from nexus.pipeline.collector.stores import FIRST_UPKEEP_S, RETENTION, Chore, Work
from nexus.pipeline.sink.port import Sink
from nexus.queue.url import QueueUrl
from nexus.settings.collector import CollectorSection
from nexus.settings.units import UNLIMITED

if TYPE_CHECKING:
    from nexus.etcd import Fence

log = get_logger(__name__)


class Lock(Protocol):
    """The right to write to a store."""

    def acquire(self, wait: Callable[[str], None] | None = None) -> None: ...
    def lost(self) -> bool: ...
    def release(self) -> None: ...


class DatabaseStore(ABC):
    """A store in a database, for the life of one collector."""

    def __init__(self, url: str, own: CollectorSection, lock: Lock) -> None:
        self.url = url
        self.own = own
        self._right = lock

    @abstractmethod
    def sink(self, spark: SparkSession, token: Callable[[], Fence | None] | None = None) -> Sink:
        """See `Store`."""

    @abstractmethod
    def _derive(self) -> Work:
        """What keeps derived tables up to date."""

    @abstractmethod
    def _upkeep(self) -> Work:
        """What removes days that are too old."""

    def acquire(self, wait: Callable[[str], None] | None) -> None:
        """The right to write. A database that is away holds up nobody else: the sink asks again."""
        try:
            self._right.acquire(wait)
        except StoreOut as error:
            if wait is None:
                raise
            log.warning("the store is away; its batches wait for it", why=str(error))

    def lost(self) -> bool:
        return self._right.lost()

    def take_up(self, changed: CollectorSection) -> None:
        self.own = replace(self.own, **{name: getattr(changed, name) for name in RETENTION})

    def wants(self, queue: QueueUrl, *, alone: bool) -> Mapping[str, str]:
        return {}

    def chores(self, spark: SparkSession) -> Sequence[Chore]:
        chores = []
        if self.own.derive:
            every = self.own.derive_interval_ms / 1000
            chores.append(Chore("derive", every, every, self._derive(), drains=True))
        if self.own.maintain_interval_ms != UNLIMITED:
            every = self.own.maintain_interval_ms / 1000
            chores.append(Chore("maintain", every, min(every, FIRST_UPKEEP_S), self._upkeep()))
        return chores

    def release(self) -> None:
        self._right.release()
