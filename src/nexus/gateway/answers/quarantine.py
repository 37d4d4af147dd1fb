"""What the pipeline refused, why, and the beginning of what it was."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import pyarrow as pa

from nexus.gateway.asking import Ask
from nexus.gateway.paging import Pages
from nexus.gateway.queries.models import QuarantineQuery
from nexus.gateway.replies import Reply, table_reply
from nexus.gateway.steps import RAW
from nexus.store.port import QUARANTINE_KEY, Span

RAW_SHOWN_BYTES: Final = 4096


def quarantine(ask: Ask, query: QuarantineQuery) -> Reply:
    """Refused messages and readings by the time of refusal."""
    pages = Pages(ask.path, query, QUARANTINE_KEY)
    span = ask.span(query)
    if pages.cursor is not None and pages.cursor.pinned is not None:
        span = Span(*pages.cursor.pinned[:2])
    page = pages.page(descending=query.order == "desc")
    rows = ask.snapshot.quarantine(span, tuple(query.reason), page)
    kept, cursor = pages.cut(rows, (span.start_us, span.end_us, RAW))
    return table_reply(ask.form, _shown(kept), cursor)


def _shown(rows: pa.Table) -> pa.Table:
    """`raw` as text where it is text, else in base 64; the rest of a long one is left out."""
    whole = rows.column("raw").to_pylist()
    sizes = rows.column("raw_size").to_pylist()
    texts = [
        _text(raw[:RAW_SHOWN_BYTES], cut=size > RAW_SHOWN_BYTES)
        for raw, size in zip(whole, sizes, strict=True)
    ]
    coded = [
        b64encode(raw[:RAW_SHOWN_BYTES]).decode() if text is None else None
        for raw, text in zip(whole, texts, strict=True)
    ]
    rows = rows.drop_columns(["raw"])
    rows = rows.append_column(pa.field("raw", pa.string()), pa.array(texts, pa.string()))
    return rows.append_column(pa.field("raw_base64", pa.string()), pa.array(coded, pa.string()))


def _text(raw: bytes, *, cut: bool) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        # A character that the cut went through is no reason to call it binary.
        if cut and error.reason == "unexpected end of data":
            return raw[: error.start].decode()
        return None
