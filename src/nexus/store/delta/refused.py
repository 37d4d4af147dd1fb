"""What was refused, and why."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from nexus.store.delta.asking import DeltaAsking
from nexus.store.port import ANY, QUARANTINE_KEY, QUARANTINE_ROWS, RAW_MAX, Page, Span
from nexus.store.questions.asking import as_schema
from nexus.store.questions.conditions import Conditions, checked_key, checked_limit, ordering
from nexus.store.questions.paging import asked, filled, moment_of, slice_rows, weights
from nexus.store.questions.slices import slices
from nexus.store.questions.spans import Stretch

# Of a large message the beginning is enough, and a page of them must fit into memory.
_SHOWN: Final = {"raw": f"raw[1:{RAW_MAX}] AS raw", "raw_size": "octet_length(raw) AS raw_size"}
_COLUMNS: Final = ", ".join(_SHOWN.get(name, f'"{name}"') for name in QUARANTINE_ROWS.names)


def quarantine(asking: DeltaAsking, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
    """A page of what was refused; see the port."""
    limit = checked_limit(page)
    if page.after is not None:
        checked_key(page.after, QUARANTINE_KEY, QUARANTINE_ROWS)
    whole = asked(span, page, moment_of(page.after))
    files = asking.files("quarantine", [whole], ANY) if whole.low < whole.high else []
    if not files:
        return QUARANTINE_ROWS.empty_table()
    cut = slices(whole, weights(files, 1.0), slice_rows(limit), descending=page.descending)
    found = filled(cut, lambda piece, left: _read(asking, reasons, piece, page, left), limit)
    return pa.concat_tables(found)


def _read(
    asking: DeltaAsking, reasons: tuple[str, ...], piece: Stretch, page: Page, limit: int
) -> pa.Table:
    files = asking.files("quarantine", [piece], ANY)
    if not files:
        return QUARANTINE_ROWS.empty_table()
    where = Conditions()
    where.during("refused", [piece])
    where.among("reason", reasons)
    key = tuple(f'"{name}"' for name in QUARANTINE_KEY)
    where.after(key, _QUOTED, page)
    sql = (
        f"SELECT {_COLUMNS} FROM {asking.source('quarantine', files, where)} WHERE {where}"
        f" ORDER BY {ordering(key, page)} LIMIT {where.bind(limit)}"
    )
    return as_schema(asking.ask(sql, where.params), QUARANTINE_ROWS)


_QUOTED: Final = pa.schema([field.with_name(f'"{field.name}"') for field in QUARANTINE_ROWS])
