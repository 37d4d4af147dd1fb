"""What a task does with its readings: numbers for their texts, and a binary COPY into staging."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.copying import Records, copy_in
from nexus.store.postgres.dictionary import Dictionary, Tell
from nexus.store.postgres.layout import READING_NUMBERS
from nexus.store.postgres.staging import Parts, staging_name
from nexus.telemetry.reading import in_one_piece
from nexus.telemetry.scalars import scalar

TABLE_IDS: Final = {"gpu_id": "of_gpu", "series_id": "of_series", "context_id": "id"}


@dataclass(frozen=True, slots=True)
class Part:
    """What one task has staged."""

    part: int = 0
    readings: int = 0
    latest: int = 0
    refused: int = 0
    days: str = ""  # commas between them
    refused_days: str = ""


class Stager:
    """Stages the rows of one task; `epoch` is the turn of the writer that it works for."""

    def __init__(self, connection: Connection, epoch: int, dictionary: Dictionary) -> None:
        self._connection = connection
        self._epoch = epoch
        self._dictionary = dictionary
        self._done = Part(secrets.randbits(62))
        self._days: set[str] = set()
        self._refused_days: set[str] = set()
        self._ends: list[pa.Table] = []

    def numbered(self, rows: pa.Table, tell: Tell) -> Records:
        """The numbers of rows that have a `context`; 0 where PostgreSQL does not take its text."""
        distinct = pc.dictionary_encode(in_one_piece(rows.column("context")))
        ids = self._dictionary.ids(self._connection, distinct.dictionary, tell)
        found: Records = ids[distinct.indices.to_numpy(zero_copy_only=False)]
        return found

    def add(self, rows: pa.Table, ids: Records) -> None:
        """Stage readings with these numbers, each reading once."""
        if not rows.num_rows:
            return
        made = rows.select(list(READING_NUMBERS))
        for name, known in TABLE_IDS.items():
            made = made.append_column(name, pa.array(np.ascontiguousarray(ids[known])))
        self._days |= _days(made.column("timestamp"))
        self._copy("readings", made)
        self._ends.append(_ends(made))
        self._done = replace(self._done, readings=self._done.readings + made.num_rows)

    def refuse(self, rows: pa.Table) -> None:
        """Stage rows of `quarantine`, less their day."""
        self._refused_days |= _days(rows.column("refused"))
        self._copy("quarantine", rows)
        self._done = replace(self._done, refused=self._done.refused + rows.num_rows)

    def finish(self) -> Part:
        """Stage what is last of each series, and say what was staged."""
        if self._ends:
            ends = _together(pa.concat_tables(self._ends))
            self._copy("latest", ends)
            self._done = replace(self._done, latest=ends.num_rows)
        days, refused = (",".join(sorted(each)) for each in (self._days, self._refused_days))
        return replace(self._done, days=days, refused_days=refused)

    def _copy(self, table: str, rows: pa.Table) -> None:
        part = pa.repeat(scalar(self._done.part, pa.int64()), rows.num_rows)
        with self._connection.cursor() as cursor:
            copy_in(cursor, staging_name(table, self._epoch), rows.append_column("part", part))


def parts_of(found: Iterable[Part]) -> Parts:
    """What all tasks of a batch have staged."""
    done = list(found)
    return Parts(
        [each.part for each in done],
        sum(each.readings for each in done),
        sum(each.latest for each in done),
        sum(each.refused for each in done),
        frozenset(day for each in done for day in each.days.split(",") if day),
        frozenset(day for each in done for day in each.refused_days.split(",") if day),
    )


def _ends(rows: pa.Table) -> pa.Table:
    """The last reading of each series, and the time of its first."""
    return _together(rows.append_column("first", rows.column("timestamp")))


def _together(rows: pa.Table) -> pa.Table:
    series = rows.column("series_id").to_numpy()
    moments = rows.column("timestamp").cast(pa.int64()).to_numpy()
    order = np.lexsort((moments, series))
    begins = np.flatnonzero(np.diff(series[order], prepend=-1))
    ends = np.append(begins[1:], len(order)) - 1
    first = np.minimum.reduceat(rows.column("first").cast(pa.int64()).to_numpy()[order], begins)
    last = rows.take(pa.array(order[ends]))
    field = last.schema.field("first")
    at = last.schema.get_field_index("first")
    return last.set_column(at, field, pa.array(first).cast(field.type))


def _days(moments: pa.ChunkedArray) -> set[str]:
    return {str(day) for day in pc.unique(pc.cast(moments, pa.date32())).to_pylist()}
