"""What is known last, at one revision: the last reading of each series, and each GPU.

The documents of all GPUs are kept in memory for the next question, and only those that changed
are read again. A question about few GPUs reads theirs and no others.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.etcd.documents import GPU_SCHEMA, Known, latest_from
from nexus.store.etcd.index import Index, rows_of
from nexus.store.etcd.layout import latest_key
from nexus.store.etcd.reading import Reader
from nexus.store.questions.database import Database
from nexus.store.questions.known import FIRST, STATE, Whole
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.scalars import EMPTY, scalar

FEW: Final = 64  # GPUs whose documents are read for one question
_ONCE: Final = (
    "SELECT * FROM readings QUALIFY row_number() OVER"
    f" (PARTITION BY {', '.join(SERIES_COLUMNS)} ORDER BY timestamp DESC) = 1"
)
_ZERO: Final = scalar(0.0, pa.float64())


def state_of(database: Database, last: pa.Table, gpus: pa.Table) -> Whole:
    """What is known last of some GPUs, or of all."""
    first = STATE.field(FIRST)
    last = last.append_column(first, pa.nulls(last.num_rows, first.type))
    return Whole(database, last, pa.concat_tables([last, _as_readings(gpus)]))


@dataclass(frozen=True)
class Kept:
    """The documents of all GPUs at a revision, and the readings in them."""

    revision: int
    era: int
    known: Known
    owners: Mapping[str, str]  # the uuid of each path
    documents: Mapping[str, bytes]  # by path
    state: Whole

    def is_of(self, index: Index) -> bool:
        return (self.era, self.revision) == (index.era, index.revision)

    @property
    def last(self) -> pa.Table:
        """The last reading of each series."""
        return self.state.last.select(READING_SCHEMA.names)

    @property
    def size(self) -> int:
        """The bytes of all documents."""
        return sum(map(len, self.documents.values()))


class LastReadings:
    """The last readings of a store; safe for any number of threads."""

    def __init__(self, reader: Reader, database: Database) -> None:
        self._reader = reader
        self._database = database
        self._turn = threading.Lock()
        nothing = state_of(database, READING_SCHEMA.empty_table(), GPU_SCHEMA.empty_table())
        self._nothing = Kept(0, 0, Index().known, {}, {}, nothing)
        self._kept = self._nothing

    def of_all(self, index: Index) -> Kept:
        """The last reading of every series, at the revision of the index."""
        with self._turn:
            if self._kept.era != index.era:
                self._kept = self._later(index, self._nothing)
            elif self._kept.revision < index.revision:
                self._kept = self._later(index, self._kept)
            kept = self._kept
        return kept if kept.is_of(index) else self._later(index, self._nothing)

    def of_few(self, index: Index, uuids: Collection[str]) -> Whole:
        """Those of some GPUs."""
        kept, gpus = self._kept, rows_of(index.known.gpus, uuids)
        if kept.is_of(index):
            return state_of(self._database, rows_of(kept.last, uuids), gpus)
        paths = [path for uuid in uuids for path in index.known.paths[uuid]]
        found = self._reader.changed([latest_key(path) for path in paths], index.revision)
        return state_of(self._database, self._readings(index, uuids, found.values()), gpus)

    def _later(self, index: Index, before: Kept) -> Kept:
        owners = {path: uuid for uuid, paths in index.known.paths.items() for path in paths}
        changed = self._changed(owners, index.revision, before)
        if not changed and index.known is before.known:
            return replace(before, revision=index.revision, era=index.era)
        documents = {path: said for path, said in before.documents.items() if path in owners}
        for path, said in changed.items():
            documents.pop(path, None)
            if said is not None:
                documents[path] = said
        stale = {owners[path] for path in changed}
        stale |= {uuid for path, uuid in before.owners.items() if path not in owners}
        paths = (path for uuid in stale for path in index.known.paths.get(uuid, ()))
        fresh = self._readings(index, stale, map(documents.get, paths))
        is_stale = pc.is_in(before.last.column("uuid"), pa.array(stale, pa.string()))
        last = pa.concat_tables([before.last.filter(pc.invert(is_stale)), fresh])
        state = state_of(self._database, last.combine_chunks(), index.known.gpus)
        return Kept(index.revision, index.era, index.known, owners, documents, state)

    def _changed(
        self, paths: Iterable[str], revision: int, before: Kept
    ) -> dict[str, bytes | None]:
        """Documents that are not as they were; one of a new path may be older than the path."""
        keys = {latest_key(path): path for path in paths}
        old = [key for key, path in keys.items() if path in before.owners]
        new = [key for key, path in keys.items() if path not in before.owners]
        found = self._reader.changed(old, revision, before.revision)
        found |= self._reader.changed(new, revision)
        return {keys[key]: said for key, said in found.items()}

    def _readings(
        self, index: Index, uuids: Iterable[str], documents: Iterable[bytes | None]
    ) -> pa.Table:
        """What documents of these GPUs say; the newest, where two paths have the same series."""
        last = latest_from([said for said in documents if said is not None])
        if any(index.moved(uuid) for uuid in uuids):
            last = self._database.ask(_ONCE, {}, {"readings": last}).cast(READING_SCHEMA)
        return last


class Newest:
    """What one question may need to know, and is read when it asks."""

    def __init__(self, readings: LastReadings, index: Index, uuids: Collection[str] | None) -> None:
        self._readings = readings
        self._index = index
        self._uuids = uuids

    def known(self) -> Whole:
        """What is known at the revision of the index, of these GPUs or of all."""
        return self._state

    @cached_property
    def _state(self) -> Whole:
        if self._uuids is not None and len(self._uuids) <= FEW:
            return self._readings.of_few(self._index, self._uuids)
        return self._readings.of_all(self._index).state


def _as_readings(gpus: pa.Table) -> pa.Table:
    """Rows of `gpus` as readings of no metric: they say who a GPU is, and since when."""
    seen = gpus.column("last_seen")
    said = {"timestamp": seen, "ingested": seen, FIRST: gpus.column("first_seen")}
    said |= {name: gpus.column(name) for name in gpus.column_names if name in STATE.names}
    columns = [
        said[each.name] if each.name in said else _nothing(each, gpus.num_rows) for each in STATE
    ]
    return pa.table(columns, schema=STATE)


def _nothing(column: pa.Field, count: int) -> pa.Array:
    if pa.types.is_string(column.type):
        return pa.repeat(EMPTY, count)
    return pa.nulls(count, column.type) if column.nullable else pa.repeat(_ZERO, count)
