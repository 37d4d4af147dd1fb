"""What is known last, as questions need it: the last readings, and each GPU with what they say."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa

from nexus.store.questions.database import Database
from nexus.store.questions.devices import devices
from nexus.telemetry.reading import READING_SCHEMA, TIMESTAMP

FIRST: Final = "first"  # since when there are readings that the table of GPUs does not know of
STATE: Final = pa.schema([*READING_SCHEMA, pa.field(FIRST, TIMESTAMP)])


class State(Protocol):
    """All last readings, at one version of the tables."""

    @property
    def last(self) -> pa.Table:
        """Each series that had a reading since the horizon, or is in no table (STATE)."""

    @property
    def horizon(self) -> int | None:
        """Since when series are there; None: all there are."""

    def devices(self) -> pa.Table:
        """Each GPU with what its last readings say of it."""


class Whole:
    """A state with every series in memory; `told` is what GPUs are judged by, if that is more."""

    horizon: Final = None

    def __init__(self, database: Database, last: pa.Table, told: pa.Table | None = None) -> None:
        self.last = last
        self._told = last if told is None else told
        self._database = database
        self._turn = threading.Lock()

    def devices(self) -> pa.Table:
        """Each GPU with what its last readings say of it."""
        with self._turn:
            return self._devices

    @cached_property
    def _devices(self) -> pa.Table:
        return devices(self._database, self._told)
