"""Readings as they came."""

from __future__ import annotations

import pyarrow as pa

from nexus.store.port import READING_KEY, READING_ROWS, Page, Selection, Span, only
from nexus.store.questions.asking import Asking, First, as_schema
from nexus.store.questions.conditions import Conditions, checked_key, checked_limit, ordering
from nexus.store.questions.paging import asked, filled, moment_of, slice_rows, weights
from nexus.store.questions.slices import slices
from nexus.store.questions.spans import Stretch


def readings(asking: Asking, which: Selection, span: Span, page: Page) -> pa.Table:
    """A page of readings; see the port."""
    limit = checked_limit(page)
    if page.after is not None:
        checked_key(page.after, READING_KEY, READING_ROWS)
    whole = asked(span, page, moment_of(page.after))
    files = asking.files("readings", [whole], which) if whole.low < whole.high else []
    schema = only(READING_ROWS, page.columns)
    if not files:
        return schema.empty_table()
    weighed = weights(files, asking.share(which))
    cut = slices(whole, weighed, slice_rows(limit), descending=page.descending)
    found = filled(cut, lambda piece, left: _read(asking, which, piece, page, left), limit)
    return pa.concat_tables(found)


def _read(asking: Asking, which: Selection, piece: Stretch, page: Page, limit: int) -> pa.Table:
    files = asking.files("readings", [piece], which)
    schema = only(READING_ROWS, page.columns)
    if not files:
        return schema.empty_table()
    where = Conditions()
    where.during("timestamp", [piece])
    where.select(which)
    where.after(READING_KEY, READING_ROWS, page)
    first = First("timestamp", page.descending, limit)
    source = asking.source("readings", files, where, first)
    sql = (
        f"SELECT {', '.join(schema.names)} FROM {source} WHERE {where}"
        f" ORDER BY {ordering(READING_KEY, page)} LIMIT {where.bind(limit)}"
    )
    return as_schema(asking.ask(sql, where.params), schema)
