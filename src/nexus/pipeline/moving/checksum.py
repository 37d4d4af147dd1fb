"""What rows say, as numbers that are the same in every store, whatever order they come in.

Every row has two numbers of 64 bits: of what makes it this row and no other, and of all that it
says. The checksum of some rows is the sum of the latter: to add rows is to add checksums. Worked
out in columns; texts are hashed once for each that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.contexts import hashes
from nexus.pipeline.narrow import context_numbers, series_numbers
from nexus.store.port import RAW_MAX
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import DEVICE_COLUMNS, in_one_piece
from nexus.telemetry.tables import TABLES

Bits = npt.NDArray[np.uint64]

_READING_NUMBERS: Final = ("ingested", "value", "source_value")
_REFUSED: Final = TABLES["quarantine"].schema
_REFUSED_TEXTS: Final = tuple(f.name for f in _REFUSED if pa.types.is_string(f.type))
_REFUSED_NUMBERS: Final = ("refused", "partition", "offset", "row")
_WINDOWS: Final = ("rollup_1m", "rollup_1h")
_WINDOW_TEXTS: Final = tuple(name for name in DEVICE_COLUMNS if name not in SERIES_COLUMNS)
_WINDOW_NUMBERS: Final = tuple(
    field.name
    for field in TABLES["rollup_1m"].schema
    if not pa.types.is_string(field.type) and field.name not in ("start", "day")
)
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_WORD: Final = (1 << 64) - 1


class Numbers(NamedTuple):
    """For each row which it is, and what it says."""

    which: Bits
    said: Bits

    def chosen(self, mask: npt.NDArray[np.bool_]) -> Numbers:
        return Numbers(self.which[mask], self.said[mask])


@dataclass(frozen=True, slots=True)
class Digest:
    """How many rows there are, and what they say together."""

    rows: int = 0
    checksum: int = 0

    @classmethod
    def of(cls, said: Bits) -> Digest:
        return cls(len(said), int(said.sum(dtype=np.uint64)))

    def plus(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.checksum + other.checksum) & _WORD)

    def minus(self, other: Digest) -> Digest:
        return Digest(self.rows - other.rows, (self.checksum - other.checksum) & _WORD)

    def __str__(self) -> str:
        return f"{self.checksum:016x}"


def numbers_of(table: str, rows: pa.Table) -> Numbers:
    """The numbers of a table's rows."""
    if table in _WINDOWS:
        return _of_windows(rows)
    return _of_readings(rows) if table == "readings" else _of_refused(rows)


def digest_of(table: str, batches: Iterable[pa.Table]) -> Digest:
    """What some rows come to."""
    whole = Digest()
    for rows in batches:
        whole = whole.plus(Digest.of(numbers_of(table, rows).said))
    return whole


def series_of(rows: pa.Table) -> Bits:
    """A number for the series of each reading or window."""
    return _mixed(series_numbers(rows)[0].view(np.uint64))


def _of_readings(rows: pa.Table) -> Numbers:
    series = series_numbers(rows)
    moments = _bits(rows, "timestamp")
    which = _mixed(series[0].view(np.uint64) + _mixed(moments))
    texts = context_numbers(rows, series)
    said = _joined(texts[0].view(np.uint64) + _mixed(moments), rows, _READING_NUMBERS)
    return Numbers(which, said)


def _of_windows(rows: pa.Table) -> Numbers:
    series = series_numbers(rows)
    starts = _mixed(_bits(rows, "start"))
    which = _mixed(series[0].view(np.uint64) + starts)
    texts = hashes(rows, _WINDOW_TEXTS, series)
    said = _joined(texts[0].view(np.uint64) + starts, rows, _WINDOW_NUMBERS)
    return Numbers(which, said)


def _of_refused(rows: pa.Table) -> Numbers:
    """What was refused is told apart by all that it says; of what is too long, its beginning."""
    said = _joined(hashes(rows, _REFUSED_TEXTS)[0].view(np.uint64), rows, _REFUSED_NUMBERS)
    begin = pc.binary_slice(in_one_piece(rows.column("raw")), 0, RAW_MAX)
    raw = begin.dictionary_encode()
    digests = [blake2b(data, digest_size=8).digest() for data in raw.dictionary.to_pylist()]
    of_raw = np.frombuffer(b"".join(digests), np.uint64)
    whole = _mixed(said * _STEP + of_raw[raw.indices.to_numpy(zero_copy_only=False)])
    return Numbers(whole, whole)


def _joined(start: Bits, rows: pa.Table, columns: Sequence[str]) -> Bits:
    made = _mixed(start)
    for name in columns:
        made = _mixed(made * _STEP + _bits(rows, name))
    return made


def _bits(rows: pa.Table, name: str) -> Bits:
    """A column's values as whole numbers; null, NaN and what a store keeps for them are one."""
    column = in_one_piece(rows.column(name))
    if not pa.types.is_floating(column.type):
        whole = pc.fill_null(column.cast(pa.int64()), 0)
        bits: Bits = whole.to_numpy(zero_copy_only=False).view(np.uint64)
        return bits
    values = column.to_numpy(zero_copy_only=False) + 0.0  # and so is zero, whatever its sign
    values[np.isnan(values)] = np.nan
    return np.asarray(values.view(np.uint64))


def _mixed(bits: npt.NDArray[Any]) -> Bits:
    """Numbers in which every bit depends on every bit; arithmetic wraps by design."""
    made: Bits = bits ^ (bits >> np.uint64(30))
    made *= np.uint64(0xBF58476D1CE4E5B9)
    made ^= made >> np.uint64(27)
    made *= np.uint64(0x94D049BB133111EB)
    made ^= made >> np.uint64(31)
    return made
