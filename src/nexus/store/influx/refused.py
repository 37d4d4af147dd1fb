"""What was refused, and why: the places of what a span has first, and then a page of it whole."""

from __future__ import annotations

import base64
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.errors import TooMuch
from nexus.store.influx.layout import place_of
from nexus.store.influx.reading import ROWS_MAX, during
from nexus.store.influx.talking import Influx
from nexus.store.influx.writing import SPREAD_NS
from nexus.store.port import QUARANTINE_KEY, QUARANTINE_ROWS, Page, Span
from nexus.store.questions.conditions import Conditions, checked_limit, ordering
from nexus.store.questions.database import Database
from nexus.store.questions.spans import Stretch
from nexus.telemetry.reading import TIMESTAMP

_PLACES: Final = pa.schema(
    [
        pa.field("time", pa.int64()),
        pa.field("refused", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("reason", "topic")),
        *(pa.field(name, pa.int64()) for name in ("partition", "offset", "row")),
    ]
)
_WHOLE: Final = pa.schema(
    [
        *_PLACES,
        *(pa.field(name, pa.string()) for name in ("stage", "content_type", "source", "raw")),
        pa.field("raw_size", pa.int64()),
    ]
)
_KEY: Final = tuple(f'"{name}"' for name in QUARANTINE_KEY)
_QUOTED: Final = pa.schema([field.with_name(f'"{field.name}"') for field in QUARANTINE_ROWS])


def quarantine(
    influx: Influx,
    database: Database,
    span: Span,
    reasons: tuple[str, ...],
    page: Page,
    *,
    is_there: bool,
) -> pa.Table:
    """A page of what was refused; see the port."""
    limit = checked_limit(page)
    where = Conditions()
    where.during("refused", [Stretch(span.start_us, span.end_us + 1)])
    where.among("reason", reasons)
    where.after(_KEY, _QUOTED, page)
    if not is_there:
        return QUARANTINE_ROWS.empty_table()
    spread = Stretch(span.start_us, span.end_us + 1 + SPREAD_NS // 1000)
    places = _asked(influx, _PLACES, spread, f" LIMIT {ROWS_MAX + 1}")
    if places.num_rows > ROWS_MAX:
        raise TooMuch(f"more than {ROWS_MAX} rows: ask for less time")
    sql = f"SELECT * FROM places WHERE {where} ORDER BY {ordering(_KEY, page)} LIMIT {limit}"
    chosen = database.ask(sql, where.params, {"places": _moments(places)})
    if not chosen.num_rows:
        return QUARANTINE_ROWS.empty_table()
    ends = pc.min_max(chosen.column("time"))
    whole = _asked(influx, _WHOLE, Stretch(ends["min"].as_py(), ends["max"].as_py() + 1))
    named = ", ".join(f'"{name}"' for name in QUARANTINE_ROWS.names)
    found = database.ask(
        f"SELECT {named} FROM whole SEMI JOIN chosen USING ({', '.join(_KEY)})"
        f" ORDER BY {ordering(_KEY, page)}",
        {},
        {"whole": _moments(whole), "chosen": chosen},
    )
    raw = [base64.b64decode(text) for text in found.column("raw").to_pylist()]
    at = found.schema.get_field_index("raw")
    return found.set_column(at, "raw", pa.array(raw, pa.binary())).cast(QUARANTINE_ROWS)


def _asked(influx: Influx, schema: pa.Schema, stretch: Stretch, tail: str = "") -> pa.Table:
    listed = ", ".join(f'"{name}"' for name in schema.names if name != "time")
    statement = f"SELECT {listed} FROM {place_of('quarantine')} WHERE {during(stretch)}{tail}"
    return influx.ask(statement, None, schema)


def _moments(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("refused")
    return rows.set_column(at, "refused", rows.column("refused").cast(TIMESTAMP))
