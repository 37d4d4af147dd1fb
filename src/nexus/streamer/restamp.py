"""A replay's time: every reading moved by one constant, its own time kept in a label.

The constant is fixed for a whole pass (base - origin), so the same reading gets the same time
whenever it is sent.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import TIMESTAMP, encoded

LABEL: Final = "source_timestamp"
_RFC_3339: Final = "%Y-%m-%dT%H:%M:%SZ"
_WHOLE_SECOND: Final = r"\.000000Z$"


def first_time_us(table: pa.Table) -> int:
    """The earliest time in a table that has rows."""
    return int(pc.min(_micros(table)).as_py())


def last_time_us(table: pa.Table) -> int:
    """The latest time in a table that has rows."""
    return int(pc.max(_micros(table)).as_py())


def restamp(table: pa.Table, shift_us: int) -> pa.Table:
    """The readings at their time plus `shift_us`, with their own time as a label."""
    moved = pc.add(_micros(table), shift_us).cast(TIMESTAMP)
    labels = _with_own_time(encoded(table.column("labels")), table.column("timestamp"))
    at, label_at = (table.schema.get_field_index(name) for name in ("timestamp", "labels"))
    return table.set_column(at, table.schema.field(at), moved).set_column(
        label_at, table.schema.field(label_at).with_type(labels.type), labels
    )


def _micros(table: pa.Table) -> pa.ChunkedArray:
    return table.column("timestamp").cast(TIMESTAMP).cast(pa.int64())


def _with_own_time(labels: pa.DictionaryArray, times: pa.ChunkedArray) -> pa.DictionaryArray:
    """Each distinct label set is cut once where the new label belongs; rows are only joined."""
    cuts = [_cut(text) for text in labels.dictionary.to_pylist()]
    before = pa.array([cut[0] for cut in cuts], pa.string()).take(labels.indices)
    after = pa.array([cut[1] for cut in cuts], pa.string()).take(labels.indices)
    joined = pc.binary_join_element_wise(before, _texts(times), after, "")
    return joined.dictionary_encode()


def _texts(times: pa.ChunkedArray) -> pa.Array:
    """Times as RFC 3339; each distinct one is written once."""
    distinct = times.cast(TIMESTAMP).combine_chunks().dictionary_encode()
    written = pc.strftime(distinct.dictionary, format=_RFC_3339)
    return pc.replace_substring_regex(written, _WHOLE_SECOND, "Z").take(distinct.indices)


def _cut(text: str) -> tuple[str, str]:
    """A canonical label text around the place of our label, which an older one leaves."""
    labels = json.loads(text) if text else {}
    less = {name: value for name, value in labels.items() if name < LABEL}
    more = {name: value for name, value in labels.items() if name > LABEL}
    head, tail = _inside(less), _inside(more)
    return (
        "{" + head + ("," if head else "") + f'"{LABEL}":"',
        '"' + ("," if tail else "") + tail + "}",
    )


def _inside(labels: dict[str, str]) -> str:
    return json.dumps(labels, ensure_ascii=False, sort_keys=True, separators=(",", ":"))[1:-1]
