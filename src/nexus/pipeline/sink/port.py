"""The sink port: what the pipeline asks of any store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from nexus.lake.errors import BatchesLost


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of checked rows (see `validate`), and what makes it this one and no other."""

    rows: DataFrame
    app: str  # whose batches are numbered
    number: int
    origin: str  # the topic or the archive that it was read from
    check: Callable[[], None] = lambda: None  # raises if it must not be committed any more


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a batch."""

    readings: int = 0  # rows that are new in the store
    duplicates: int = 0  # of a reading in the same batch, or of a stored one
    late: int = 0  # not newer than their series' last stored reading: they had to be looked up
    quarantined: int = 0
    version: int | None = None  # of the table of readings that this batch made
    replayed: bool = False  # the store had it already


class Sink(Protocol):
    """Stores batches, each exactly once however often it is given."""

    def store(self, batch: Batch) -> Stored: ...


def refuse_a_gap(store: object, batch: Batch, last: int) -> None:
    """Batches come one after the other: what is missing before this one was stored and lost."""
    if batch.number > last + 1:
        raise BatchesLost(
            f"store {store}: batches {last + 1} to {batch.number - 1} were stored here and are"
            " gone: the store was emptied or set back. Bring it back; or, to read the queue anew"
            " from its start, remove the collector's checkpoint or use another --data-dir"
        )
