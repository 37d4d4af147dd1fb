"""What was refused, and why: a page of it is one statement of the database."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from nexus.store.port import QUARANTINE_KEY, QUARANTINE_ROWS, RAW_MAX, Page, Span
from nexus.store.postgres.asking import as_postgres
from nexus.store.postgres.pinned import Pin, Pins
from nexus.store.questions.conditions import Conditions, checked_limit, ordering
from nexus.store.questions.spans import Stretch

# Quoted, because some of them are words of SQL. Of a large message the beginning is enough.
_SHOWN: Final = {
    "raw": f"substring(raw FROM 1 FOR {RAW_MAX}) AS raw",
    "raw_size": "octet_length(raw)::bigint AS raw_size",
}
_COLUMNS: Final = ", ".join(_SHOWN.get(name, f'"{name}"') for name in QUARANTINE_ROWS.names)
_KEY: Final = tuple(f'"{name}"' for name in QUARANTINE_KEY)
_QUOTED: Final = pa.schema([field.with_name(f'"{field.name}"') for field in QUARANTINE_ROWS])


def quarantine(pins: Pins, pin: Pin, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
    """A page of what was refused; see the port."""
    limit = checked_limit(page)
    where = Conditions()
    where.during("refused", [Stretch(span.start_us, span.end_us + 1)])
    where.among("reason", reasons)
    where.after(_KEY, _QUOTED, page)
    if not pin.id:
        return QUARANTINE_ROWS.empty_table()
    text, params = as_postgres(where)
    sql = (
        f"SELECT {_COLUMNS} FROM quarantine WHERE {text}"
        f" ORDER BY {ordering(_KEY, page)} LIMIT {limit}"
    )
    with pins.reading(pin) as cursor:
        rows = cursor.execute(sql, params).fetchall()
    columns = zip(*rows, strict=True) if rows else ([] for _ in QUARANTINE_ROWS.names)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, QUARANTINE_ROWS, strict=True)]
    return pa.table(arrays, schema=QUARANTINE_ROWS)
