"""Windows whose readings are gone, put where the database would have computed them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from nexus.pipeline.moving.contexts import Contexts
from nexus.pipeline.moving.port import Slice
from nexus.store.postgres.connecting import Connection
from nexus.store.postgres.copying import Records, copy_in
from nexus.store.postgres.dictionary import fit
from nexus.store.postgres.layout import MEASURES
from nexus.store.postgres.lock import Turn, hold_turn
from nexus.store.postgres.staging import add_held, make_partitions
from nexus.store.postgres.writing import TABLE_IDS, Stager
from nexus.telemetry.reading import READING_SCHEMA

_COUNTED: Final = """
SELECT %(name)s, date_trunc('hour', start), count(*), min(start), max(start), now()
FROM {table}_stored WHERE start >= %(low)s AND start < %(high)s GROUP BY 2"""
_FORGET: Final = (
    "DELETE FROM store_held WHERE name = %(name)s AND start >= %(low)s AND start < %(high)s"
)


def add_windows(
    connection: Connection, turn: Turn, stager: Stager, part: Slice, rows: pa.Table
) -> pa.Table:
    """Add windows of a day in one transaction; those that PostgreSQL cannot hold come back."""
    contexts = Contexts(_as_readings(rows))
    ids: Records = stager.numbered(contexts.readings, lambda new: fit(contexts.told(new)))
    taken = ids["id"] > 0
    made = rows.filter(pa.array(taken)).select(list(MEASURES))
    for name, known in TABLE_IDS.items():
        made = made.append_column(name, pa.array(np.ascontiguousarray(ids[taken][known])))
    params = {"name": part.table, "low": part.since, "high": part.until}
    make_partitions(connection, part.table, [part.day])
    with connection.transaction(), connection.cursor() as cursor:
        hold_turn(connection, turn)
        copy_in(cursor, f"{part.table}_stored", made)
        counted = cursor.execute(_COUNTED.format(table=part.table), params).fetchall()
        cursor.execute(_FORGET, params)
        add_held(cursor, counted)
    return rows.filter(pa.array(~taken))


def note_gone(connection: Connection, turn: Turn, part: Slice) -> None:
    """A day's rollup is all there is of it: nobody computes it again, and it can be asked."""
    with connection.transaction():
        hold_turn(connection, turn)
        connection.execute(
            "INSERT INTO store_removed VALUES (%s) ON CONFLICT DO NOTHING", (part.day,)
        )
        connection.execute(
            "INSERT INTO store_rollups AS r VALUES (%s, %s, 0) ON CONFLICT (name) DO UPDATE"
            " SET closed = greatest(r.closed, excluded.closed)",
            (part.table, part.until),
        )
        connection.execute(
            "UPDATE store_tables SET version = version + 1, changed = now() WHERE name = %s",
            (part.table,),
        )


def _as_readings(rows: pa.Table) -> pa.Table:
    """Windows with the columns of readings; what their texts do not say is empty."""
    codes = pa.array(np.zeros(rows.num_rows, np.int32))
    empty = pa.DictionaryArray.from_arrays(codes, pa.array([""]))
    known = {name: rows.column("start") for name in ("timestamp", "ingested")}
    known |= {name: rows.column("last") for name in ("value", "source_value")}
    known |= {name: rows.column(name) for name in rows.column_names}
    return pa.table({name: known.get(name, empty) for name in READING_SCHEMA.names})
