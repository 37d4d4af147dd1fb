"""What was refused, as keys and JSON values, and back.

The thing itself is kept as text (`raw`) where it is text, and in base64 (`raw_base64`) where it
is not; of one that is larger than a value may be, the beginning, and `raw_size` says how large
it was. A key's name sorts by when it was refused and where it came from; the hash tells apart
what came from one place, and equal things are numbered.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.store.etcd.layout import MOMENT_DIGITS, StoreLayout
from nexus.store.etcd.rows import moments_text, object_of, parsed
from nexus.telemetry.reading import in_one_piece
from nexus.telemetry.scalars import EMPTY
from nexus.telemetry.tables import TABLES

RAW_BYTES_MOST: Final = 256 << 10
_STORED: Final = [f for f in TABLES["quarantine"].schema if f.name != "day"]
_TEXTS: Final = tuple(f.name for f in _STORED if pa.types.is_string(f.type))
ROWS: Final = pa.schema([*_STORED, pa.field("raw_size", pa.int64(), nullable=False)])
_JSON: Final = pa.schema(
    [
        *(f.with_nullable(True) for f in ROWS if f.name != "raw"),
        pa.field("raw", pa.string()),
        pa.field("raw_base64", pa.string()),
    ]
)


def refused_items(
    layout: StoreLayout, rows: pa.Table, salt: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """Rows of `quarantine` (less their day) as keys and values; `salt` sets other callers apart."""
    moments = moments_text(in_one_piece(rows.column("refused"))).to_pylist()
    numbers = rows.column("refused").cast(pa.int64()).to_pylist()
    seen: Counter[bytes] = Counter()
    prefix = layout.quarantine().start
    for moment, number, row in zip(moments, numbers, rows.to_pylist(), strict=True):
        name = _name(number, row, salt)
        seen[name] += 1
        yield prefix + name + b"_%d" % seen[name], _value(moment, row)


def refused_from(values: Sequence[bytes]) -> pa.Table:
    """What was refused, as rows of `quarantine` less their day, and `raw_size` (ROWS)."""
    found = parsed(values, _JSON)
    texts = zip(*(found.column(n).to_pylist() for n in ("raw", "raw_base64")), strict=True)
    raw = [base64.b64decode(coded) if coded else (text or "").encode() for text, coded in texts]
    columns: dict[str, Any] = {name: pc.fill_null(found.column(name), EMPTY) for name in _TEXTS}
    columns["raw"] = pa.array(raw, pa.binary())
    for field in ROWS:
        columns.setdefault(field.name, found.column(field.name))
    sizes = pa.array([len(data) for data in raw], pa.int64())
    columns["raw_size"] = pc.coalesce(found.column("raw_size"), sizes)
    return pa.table(columns).select(ROWS.names).cast(ROWS)


def _name(moment_us: int, row: Mapping[str, Any], salt: bytes) -> bytes:
    said = (salt, row["topic"].encode(), row["reason"].encode(), row["raw"])
    digest = blake2b(b"".join(len(p).to_bytes(4) + p for p in said), digest_size=8).hexdigest()
    place = f"{row['partition']:06d}_{max(row['offset'], 0):019d}_{row['row']:06d}"
    return f"{moment_us:0{MOMENT_DIGITS}d}_{place}_{digest}".encode()


def _value(moment: str, row: Mapping[str, Any]) -> bytes:
    raw: bytes = row["raw"]
    said = {k: v for k, v in row.items() if k not in ("refused", "raw") and v != ""}
    kept = raw[:RAW_BYTES_MOST]
    try:
        thing: dict[str, Any] = {"raw": kept.decode()}
    except UnicodeDecodeError:
        thing = {"raw_base64": base64.b64encode(kept).decode()}
    if len(kept) < len(raw):
        thing["raw_size"] = len(raw)
    return object_of({"refused": moment, **said, **thing}).encode()
