"""Answers before they are sent: bytes, their form, and what caches may do with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import cramjam
import orjson
import pyarrow as pa

from nexus.gateway.rendering.forms import Form, arrow_stream, csv_text
from nexus.gateway.rendering.json_rows import json_rows

# Smaller ones fit a packet anyway.
GZIP_LEAST_BYTES: Final = 1400
_GZIP_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, whole."""

    body: bytes
    content_type: str = Form.JSON.content_type
    next_cursor: str | None = None


def document(content: Any) -> Reply:
    """A JSON document."""
    return Reply(orjson.dumps(content))


def table_reply(
    form: Form, table: pa.Table, next_cursor: str | None = None, **more: object
) -> Reply:
    """A list in the form that was asked for; `more` stands in the JSON document beside it."""
    if form is Form.CSV:
        return Reply(csv_text(table), form.content_type, next_cursor)
    if form is Form.ARROW:
        return Reply(arrow_stream(table), form.content_type, next_cursor)
    around = orjson.dumps({"count": table.num_rows, "next_cursor": next_cursor, **more})
    body = b'{"data":[%b],%b' % (json_rows(table), around[1:])
    return Reply(body, form.content_type, next_cursor)


def gzipped(body: bytes) -> bytes:
    """The body, compressed quickly rather than well."""
    return bytes(cramjam.gzip.compress(body, level=_GZIP_LEVEL))
