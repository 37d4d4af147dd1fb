"""The sink port: what the pipeline asks of any store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame


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
