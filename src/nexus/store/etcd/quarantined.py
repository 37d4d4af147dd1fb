"""What was refused, and why."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.etcd.asking import ROWS_A_KEY, EtcdAsking
from nexus.store.etcd.layout import StoreLayout, moment_us_of
from nexus.store.etcd.reading import Asked
from nexus.store.etcd.refused import ROWS, refused_from
from nexus.store.port import QUARANTINE_KEY, QUARANTINE_ROWS, RAW_MAX, Page, Span
from nexus.store.questions.asking import as_schema
from nexus.store.questions.conditions import Conditions, checked_key, checked_limit, ordering
from nexus.store.questions.paging import asked, filled, moment_of, slice_rows
from nexus.store.questions.slices import Weight, slices
from nexus.store.questions.spans import SECOND, Stretch

# Quoted, because some of them are words of SQL.
_COLUMNS: Final = ", ".join(f'"{name}"' for name in QUARANTINE_ROWS.names)
_KEY: Final = tuple(f'"{name}"' for name in QUARANTINE_KEY)
_QUOTED: Final = pa.schema([field.with_name(f'"{field.name}"') for field in QUARANTINE_ROWS])


def quarantine(
    asking: EtcdAsking, layout: StoreLayout, span: Span, reasons: tuple[str, ...], page: Page
) -> pa.Table:
    """A page of what was refused; see the port."""
    limit = checked_limit(page)
    if page.after is not None:
        checked_key(page.after, QUARANTINE_KEY, QUARANTINE_ROWS)
    whole = asked(span, page, moment_of(page.after))
    weights = _weights(asking, layout, whole) if whole.low < whole.high else []
    if not weights:
        return QUARANTINE_ROWS.empty_table()
    cut = slices(whole, weights, slice_rows(limit), descending=page.descending)

    def read(piece: Stretch, left: int) -> pa.Table:
        return _chosen(asking, _rows(asking, layout, piece), reasons, page, left)

    return pa.concat_tables(filled(cut, read, limit))


def _weights(asking: EtcdAsking, layout: StoreLayout, whole: Stretch) -> list[Weight]:
    """About where in a stretch of time things were refused; none if nothing was."""
    keys = layout.quarantine(whole.low, whole.high)
    (count,) = asking.store.reader.counted([keys], asking.store.index.revision)
    if count.first is None:
        return []
    low = moment_us_of(count.first.key)
    high = max(low + 1, min(whole.high, round(asking.now_s() * SECOND)))
    return [Weight(Stretch(low, high), count.keys * ROWS_A_KEY)]


def _rows(asking: EtcdAsking, layout: StoreLayout, piece: Stretch) -> pa.Table:
    keys = layout.quarantine(piece.low, piece.high)
    portions = asking.store.reader.items([Asked(keys)], asking.store.index.revision)
    found = [_shortened(refused_from([item.value for item in items])) for items in portions]
    return pa.concat_tables([ROWS.empty_table(), *found])


def _shortened(rows: pa.Table) -> pa.Table:
    """Of a large message the beginning is enough, and a page of them must fit into memory."""
    shown = pc.binary_slice(rows.column("raw"), 0, RAW_MAX)
    return rows.set_column(rows.schema.get_field_index("raw"), ROWS.field("raw"), shown)


def _chosen(
    asking: EtcdAsking, rows: pa.Table, reasons: tuple[str, ...], page: Page, limit: int
) -> pa.Table:
    where = Conditions()
    where.among("reason", reasons)
    where.after(_KEY, _QUOTED, page)
    sql = (
        f"SELECT {_COLUMNS} FROM refused WHERE {where}"
        f" ORDER BY {ordering(_KEY, page)} LIMIT {where.bind(limit)}"
    )
    return as_schema(asking.ask(sql, where.params, {"refused": rows}), QUARANTINE_ROWS)
