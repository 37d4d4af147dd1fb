"""Readings as the data of events: JSON, a list for each column, and no loop over the readings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.gateway.live.columns import TEXT
from nexus.telemetry.reading import encoded
from nexus.telemetry.scalars import scalar

EVENT_ROWS: Final = 5_000
EVENT_BYTES: Final = 2 << 20
_NUMBERS_BYTES: Final = 64  # of a row's time, value and commas
_COMMA: Final = scalar(",", pa.string())
_NULL: Final = scalar("null", pa.string())


def event_slices(table: pa.Table) -> Iterator[pa.Table]:
    """The readings in pieces that make events of a size that is good to send."""
    rows = max(1, min(EVENT_ROWS, EVENT_BYTES // _widest_row(table)))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def rendered(table: pa.Table) -> bytes:
    """{"timestamp":[…],"value":[…],"metric":[…],…}"""
    lists = {
        "timestamp": table.column("timestamp").cast(pa.string()),
        "value": pc.fill_null(table.column("value").cast(pa.string()), _NULL),
        **{name: _spread(encoded(table.column(name))) for name in TEXT},
    }
    columns = [b'"%b":[%b]' % (name.encode(), _listed(texts)) for name, texts in lists.items()]
    return b"{%b}" % b",".join(columns)


def _widest_row(table: pa.Table) -> int:
    """What a row takes at most."""
    dictionaries = [encoded(table.column(name)).dictionary for name in TEXT]
    widest = [pc.max(pc.binary_length(texts)).as_py() or 0 for texts in dictionaries]
    return _NUMBERS_BYTES + sum(widest)


def _spread(text: pa.DictionaryArray) -> pa.Array:
    return text.dictionary.take(text.indices)


def _listed(texts: pa.Array | pa.ChunkedArray) -> bytes:
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if isinstance(whole, pa.ChunkedArray):  # a column of no chunks stays chunked
        return b""
    offsets = pa.array([0, len(whole)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, whole), _COMMA)
    return bytes(joined[0].as_buffer())
