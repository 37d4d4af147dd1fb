"""What the text columns of a row say together, as one number; and the text itself, told once.

A fleet's rows repeat a few thousand texts in some combinations, its *contexts*. One is known by a
hash that is worked out in columns. The texts travel beside the rows as Arrow: a `Teller` gives
those of contexts that it has not told yet, a `Learned` finds them again for the rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.errors import PipelineError
from nexus.telemetry.reading import encoded

Numbers = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.uint64]

# Rows are dealt to tasks by lane, and contexts are told by lane: where its rows go, a context goes.
LANES: Final = 64

_NUMBER, _CHECK = "number", "check"  # the check finds out two contexts with one number
_TEXTS_KEPT: Final = 1 << 18
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


def hashes(
    table: pa.Table, columns: Sequence[str], before: tuple[Numbers, Numbers] | None = None
) -> tuple[Numbers, Numbers]:
    """For each row two independent numbers for what these columns say together.

    With `before`, the numbers of earlier columns, for what all of them say together.
    """
    start = before or (np.zeros(1, np.int64), np.zeros(1, np.int64))
    low, high = (np.broadcast_to(half.view(np.uint64), table.num_rows).copy() for half in start)
    for name in columns:
        text = encoded(table.column(name))
        digests = _digests(text.dictionary)
        # A polynomial of numbers that are random already; arithmetic wraps by design.
        low *= _STEP
        high *= _STEP
        if digests.shape[1] == 1:  # the column says the same in every row
            low += digests[0, 0]
            high += digests[1, 0]
        else:
            codes = text.indices.to_numpy(zero_copy_only=False)
            low += digests[0].take(codes)
            high += digests[1].take(codes)
    return low.view(np.int64), high.view(np.int64)


def lanes(uuid: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """For each row the lane of its GPU."""
    text = encoded(uuid)
    of_text = (_digests(text.dictionary)[0] % np.uint64(LANES)).astype(np.int32)
    found: npt.NDArray[np.int32] = of_text[text.indices.to_numpy(zero_copy_only=False)]
    return found


class Teller:
    """Tells the contexts of one task's rows, each once."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._told = pa.array([], pa.int64())

    def new(
        self, table: pa.Table, numbers: tuple[Numbers, Numbers], lane: npt.NDArray[np.int32]
    ) -> Iterator[tuple[int, bytes]]:
        """By lane, the texts of contexts among these rows that were not told before."""
        distinct = pa.array(numbers[0]).dictionary_encode()
        is_new = pc.invert(pc.is_in(distinct.dictionary, value_set=self._told))
        if not pc.any(is_new).as_py():
            return
        self._told = pa.concat_arrays([self._told, distinct.dictionary.filter(is_new)])
        rows = _first(distinct)[is_new.to_numpy(zero_copy_only=False)]
        lane_of = lane[rows]
        for number in np.unique(lane_of):
            chosen = rows[lane_of == number]
            yield int(number), self._packed(table.take(pa.array(chosen)), numbers, chosen)

    def _packed(
        self, table: pa.Table, numbers: tuple[Numbers, Numbers], rows: npt.NDArray[np.int64]
    ) -> bytes:
        columns = {name: _compact(table.column(name)) for name in self._columns}
        ids = {_NUMBER: pa.array(numbers[0][rows]), _CHECK: pa.array(numbers[1][rows])}
        batch = pa.record_batch({**ids, **columns})
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())


class Learned:
    """The texts of the contexts that were told; a context must come before its rows."""

    def __init__(self) -> None:
        self._table: pa.Table | None = None

    def learn(self, told: Sequence[bytes]) -> None:
        """Take what tellers have told."""
        tables = [pa.ipc.open_stream(blob).read_all() for blob in told]
        if not tables:
            return
        known = [self._table] if self._table is not None else []
        table = pa.concat_tables([*known, *tables]).unify_dictionaries().combine_chunks()
        self._table = _distinct(table)

    def columns(
        self, numbers: pa.Array | pa.ChunkedArray, names: Sequence[str]
    ) -> Mapping[str, pa.DictionaryArray]:
        """The text columns of rows whose contexts have these numbers."""
        if not len(numbers):
            nothing = pa.array([], pa.string()).dictionary_encode()
            return dict.fromkeys(names, nothing)
        places = self._places(numbers)
        return {name: _taken(self._told().column(name), places) for name in names}

    def _places(self, numbers: pa.Array | pa.ChunkedArray) -> pa.Array:
        whole = numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers
        places = pc.index_in(whole, value_set=self._told().column(_NUMBER))
        if places.null_count:
            raise PipelineError(f"{places.null_count} rows name a context that was never told")
        return places

    def _told(self) -> pa.Table:
        if self._table is None:
            raise PipelineError("rows name contexts, and none was ever told")
        return self._table


def _digests(texts: pa.Array) -> _Bits:
    """Two numbers for each text, in two rows."""
    made = b"".join(map(_digest, texts.to_pylist()))
    return np.ascontiguousarray(np.frombuffer(made, np.uint64).reshape(-1, 2).T)


@lru_cache(maxsize=_TEXTS_KEPT)
def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _first(distinct: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    """Where each value of the dictionary first stands."""
    codes = distinct.indices.to_numpy(zero_copy_only=False)
    first = np.empty(len(distinct.dictionary), np.int64)
    backwards = np.arange(len(codes) - 1, -1, -1)
    first[codes[::-1]] = backwards  # of several, the last to be written stays
    return first


def _distinct(table: pa.Table) -> pa.Table:
    """Every context once."""
    distinct = pc.dictionary_encode(table.column(_NUMBER).combine_chunks())
    first = _first(distinct)
    checks = table.column(_CHECK).to_numpy()
    codes = distinct.indices.to_numpy(zero_copy_only=False)
    if not np.array_equal(checks, checks[first][codes]):
        raise PipelineError("two contexts have one number: they cannot be told apart")
    return table if len(first) == table.num_rows else table.take(pa.array(first)).combine_chunks()


def _compact(column: pa.ChunkedArray) -> pa.Array:
    """The texts that are used, and no others."""
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return plain.combine_chunks().dictionary_encode()


def _taken(column: pa.ChunkedArray, places: pa.Array) -> pa.DictionaryArray:
    text = encoded(column)
    return pa.DictionaryArray.from_arrays(text.indices.take(places), text.dictionary)
