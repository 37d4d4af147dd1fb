"""What makes a reading this one and no other, and one number for it that never changes.

The hash is part of stored data: the same reading has the same hash in every version of Python
and of Nexus, and a test holds the expected numbers.
"""

from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.combine import combine
from nexus.telemetry.reading import as_table
from nexus.telemetry.scalars import scalar, whole

# What tells series apart; a reading is one moment of one series.
SERIES_COLUMNS: Final = ("uuid", "mig", "metric", "instance", "namespace", "pod", "container")
IDENTITY_COLUMNS: Final = (*SERIES_COLUMNS, "timestamp")

HASH_BYTES: Final = 16
_HASH: Final = pa.binary(HASH_BYTES)
_STEP: Final = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)  # one odd constant for each half
_MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def series_hash(table: pa.Table | pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """Sixteen bytes for the series of each canonical reading."""
    halves = _series(as_table(table))
    return _interleaved(*halves)


def identity_hash(table: pa.Table | pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """Sixteen bytes for each canonical reading: its series and its moment."""
    table = as_table(table)
    moments = table.column("timestamp").cast(pa.int64()).combine_chunks()
    if isinstance(moments, pa.ChunkedArray):
        moments = pa.array([], pa.int64())
    halves = (
        _mixed(pc.bit_wise_xor(half, _mixed(moments.view(pa.uint64()), step)), step)
        for half, step in zip(_series(table), _STEP, strict=True)
    )
    return _interleaved(*halves)


def _series(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    series = combine([table.column(name) for name in SERIES_COLUMNS])
    digests = b"".join(series_digest(row) for row in series.rows())
    numbers = pa.Array.from_buffers(pa.uint64(), 2 * len(series), [None, pa.py_buffer(digests)])
    doubled = pc.shift_left(series.codes.cast(pa.int64()), whole(1))
    return numbers.take(doubled), numbers.take(pc.add(doubled, whole(1)))


def series_digest(parts: tuple[str, ...]) -> bytes:
    """The hash of a series; lengths keep ("a", "bc") apart from ("ab", "c")."""
    texts = [part.encode() for part in parts]
    framed = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    return blake2b(framed, digest_size=HASH_BYTES).digest()


def _mixed(numbers: pa.Array, step: int) -> pa.Array:
    """A bijection of 64 bits (the finaliser of splitmix64); arithmetic wraps by design."""
    mixed = pc.add(numbers, scalar(step, pa.uint64()))
    for shift, factor in _MIX:
        mixed = pc.bit_wise_xor(mixed, pc.shift_right(mixed, scalar(shift, pa.uint64())))
        mixed = pc.multiply(mixed, scalar(factor, pa.uint64()))
    return pc.bit_wise_xor(mixed, pc.shift_right(mixed, scalar(31, pa.uint64())))


def _interleaved(low: pa.Array, high: pa.Array) -> pa.FixedSizeBinaryArray:
    count = len(low)
    if count == 0:
        return pa.array([], _HASH)
    # Row i is number i of the first half and number i of the second, which stands after it.
    order = pc.divide(pa.arange(0, 2 * count), whole(2))
    odd = pc.bit_wise_and(pa.arange(0, 2 * count), whole(1))
    both = pa.concat_arrays([low, high]).take(pc.add(order, pc.multiply(odd, whole(count))))
    return pa.FixedSizeBinaryArray.from_buffers(_HASH, count, [None, both.buffers()[1]])
