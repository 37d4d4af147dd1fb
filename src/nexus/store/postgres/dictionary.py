"""The numbers of contexts: what the texts of readings say is stored once, and known by a number.

Numbers are given under a lock and only grow, so what is known is brought up to date by reading
what has a greater one. A context that was stored stays, also if the batch that brought it does
not come to its end: it says nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.copying import Records, copy_in, fetch_records
from nexus.store.postgres.layout import TEXTS
from nexus.telemetry.scalars import scalar

Numbers = npt.NDArray[np.int64]
# Given hashes, what they stand for: series_a, series_b, hash and TEXTS.
Tell = Callable[[pa.Array], pa.Table]

_FIELDS: Final = (("id", ">i4"), ("of_series", ">i4"), ("of_gpu", ">i4"), ("hash", ">i8"))
_LOCK: Final = 0x6E657875735F6374
_INCOMING: Final = """
CREATE TEMP TABLE IF NOT EXISTS incoming (LIKE contexts);
ALTER TABLE incoming ALTER id DROP NOT NULL, ALTER of_series DROP NOT NULL,
  ALTER of_gpu DROP NOT NULL;
TRUNCATE incoming"""
_INSERT: Final = f"""
WITH new AS (
  SELECT nextval('context_ids')::int AS id, i.series_a, i.series_b, i.hash, {
    ", ".join(f'i."{name}"' for name in TEXTS)
} FROM incoming i WHERE NOT EXISTS (SELECT FROM contexts k WHERE k.hash = i.hash)
)
INSERT INTO contexts SELECT id,
  coalesce((SELECT k.of_series FROM contexts k WHERE k.series_a = new.series_a
            AND k.series_b = new.series_b LIMIT 1),
           min(id) OVER (PARTITION BY series_a, series_b)),
  coalesce((SELECT k.of_gpu FROM contexts k WHERE k.uuid = new.uuid LIMIT 1),
           min(id) OVER (PARTITION BY uuid)),
  series_a, series_b, hash, {", ".join(f'"{name}"' for name in TEXTS)} FROM new"""


class Dictionary:
    """What one process knows of a store's contexts."""

    def __init__(self) -> None:
        nobody: Records = np.zeros(1, [(name, kind.replace(">", "=")) for name, kind in _FIELDS])
        self._ids = nobody
        self._hashes = pa.array([None], pa.int64())
        self._last = 0

    def ids(self, connection: Connection, hashes: pa.Array, tell: Tell) -> Records:
        """For each of these contexts, each named once, its numbers; those that are new are told.

        What is not told either has the number 0.
        """
        places = self._places(hashes)
        if places.null_count:
            self._catch_up(connection)
            places = self._places(hashes)
        if places.null_count:
            told = tell(hashes.filter(places.is_null()))
            if told.num_rows:
                _store(connection, told)
                self._catch_up(connection)
                places = self._places(hashes)
        at = pc.fill_null(places, scalar(0, pa.int32())).to_numpy(zero_copy_only=False)
        found: Records = self._ids[at]
        return found

    def _places(self, hashes: pa.Array) -> pa.Array:
        return pc.index_in(hashes, value_set=self._hashes)

    def _catch_up(self, connection: Connection) -> None:
        with connection.cursor() as cursor:
            new = fetch_records(
                cursor,
                "SELECT id, of_series, of_gpu, hash FROM contexts WHERE id > %(last)s ORDER BY id",
                {"last": self._last},
                _FIELDS,
            )
        if len(new):
            made = np.empty(len(new), self._ids.dtype)
            for name, _ in _FIELDS:
                made[name] = new[name]
            self._ids = np.concatenate([self._ids, made])
            self._hashes = pa.concat_arrays([self._hashes, pa.array(made["hash"])])
            self._last = int(made["id"][-1])


def fit(texts: pa.Table) -> pa.Table:
    """The rows without a text that PostgreSQL does not take: one with the character NUL in it."""
    found = pa.repeat(scalar(False, pa.bool_()), texts.num_rows)
    for name in TEXTS:
        has = pc.match_substring(texts.column(name).cast(pa.string()), "\0")
        found = pc.or_(found, has.combine_chunks())
    return texts.filter(pc.invert(found))


def _store(connection: Connection, told: pa.Table) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        _incoming(cursor, told)
        cursor.execute(_INSERT)


def _incoming(cursor: psycopg.Cursor[Any], told: pa.Table) -> None:
    cursor.execute("SET LOCAL client_min_messages = warning")
    cursor.execute(_INCOMING)
    copy_in(cursor, "incoming", told)
