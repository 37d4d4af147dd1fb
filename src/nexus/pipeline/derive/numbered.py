"""Rows of any table in the form in which they cross Spark: numbers, and what they stand for.

As in `nexus.pipeline.narrow`, text crosses once a task, in a row of its own, and other rows name
it by a hash; here for any table, and with no more columns than a job needs.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.derive.parts import Numbers, Reduce
from nexus.pipeline.errors import PipelineError
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS, series_digest
from nexus.telemetry.scalars import scalar

# Of every row: its GPU, both halves of its series, and what its text columns say.
GPU, SERIES, CONTEXT, TOLD = "gpu_number", ("series_a", "series_b"), "context", "told"
_NUMBERS: Final = (GPU, *SERIES, CONTEXT)
_KEPT: Final = 100_000  # contexts that a worker remembers: pods come and go


class _Context(NamedTuple):
    """What is worked out once for a combination of texts."""

    gpu_number: int
    series_a: int
    series_b: int
    context: int
    told: bytes


def numbered_schema(carried: Iterable[pa.Field]) -> pa.Schema:
    """The schema of numbered rows with these columns beside; `told` is null but in contexts."""
    numbers = [pa.field(name, pa.int64()) for name in _NUMBERS]
    others = [pa.field(field.name, field.type) for field in carried]
    return pa.schema([*numbers, *others, pa.field(TOLD, pa.binary())])


class Numberer:
    """Numbers the rows of one task, in which every context is told once."""

    def __init__(self, text: Sequence[str], schema: pa.Schema, reduce: Reduce | None) -> None:
        self._text = tuple(text)
        self._schema = schema
        self._reduce = reduce
        self._told: set[int] = set()

    def batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table, or what they are reduced to, after the contexts that are new."""
        if not table.num_rows:
            return
        kinds = combine([table.column(name) for name in self._text])
        contexts = [_context(self._text, texts) for texts in kinds.rows()]
        new = {c.context: c for c in contexts if c.context not in self._told}
        if new:
            self._told.update(new)
            yield self._batch(len(new), _columns([*new.values()], (*_NUMBERS, TOLD)))
        codes = kinds.codes
        carried: Mapping[str, pa.Array] = self._carried(table)
        if self._reduce is not None:
            reduced = self._reduce(table, _series(contexts)[codes.to_numpy()])
            codes, carried = codes.take(reduced.rows), reduced.columns
        numbers = {n: c.take(codes) for n, c in _columns(contexts, _NUMBERS).items()}
        yield self._batch(len(codes), {**numbers, **carried})

    def _carried(self, table: pa.Table) -> dict[str, pa.Array]:
        names = [name for name in self._schema.names if name in table.column_names]
        return {name: _whole(table.column(name)) for name in names}

    def _batch(self, count: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        made = [columns.get(f.name, pa.nulls(count, f.type)) for f in self._schema]
        return pa.record_batch(made, schema=self._schema)


class Told:
    """What the contexts of a task's rows say."""

    def __init__(self, rows: pa.Table) -> None:
        """Take the contexts out of all rows of a task; `rows` has the others."""
        is_context = pc.is_valid(rows.column(TOLD))
        self.rows = rows.filter(pc.invert(is_context)).drop_columns([TOLD])
        self._contexts: dict[int, dict[str, str]] = {}
        told: list[bytes] = pc.unique(rows.filter(is_context).column(TOLD)).to_pylist()
        for text in told:
            if self._contexts.setdefault(number_of(text), said := json.loads(text)) != said:
                raise PipelineError("two contexts have one hash: they cannot be told apart")

    def texts(self, rows: pa.Table, names: Sequence[str]) -> dict[str, pa.DictionaryArray]:
        """The text columns of these rows."""
        codes = pc.dictionary_encode(_whole(rows.column(CONTEXT)))
        try:
            said = [self._contexts[number] for number in codes.dictionary.to_pylist()]
        except KeyError as error:
            raise PipelineError(f"a row names the context {error}, which never came") from None
        columns = {}
        for name in names:
            distinct = pa.array([texts[name] for texts in said], pa.string()).dictionary_encode()
            indices = distinct.indices.take(codes.indices)
            columns[name] = pa.DictionaryArray.from_arrays(indices, distinct.dictionary)
        return columns


def number_of(told: bytes) -> int:
    """The number that stands for a context."""
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "little", signed=True)


def first_of_each(rows: pa.Table, key: Sequence[str], order: Mapping[str, str]) -> pa.Table:
    """Of the rows that agree in `key`, the one that comes first by `order`."""
    if rows.num_rows < 2:
        return rows
    by = [*((name, "ascending") for name in key), *order.items()]
    rows = rows.take(pc.sort_indices(rows, by))
    differs = pa.repeat(scalar(False, pa.bool_()), rows.num_rows - 1)
    for name in key:
        column = _whole(rows.column(name))
        differs = pc.or_(differs, pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)))
    return rows.filter(pa.concat_arrays([pa.array([True]), differs]))


@lru_cache(maxsize=_KEPT)
def _context(names: tuple[str, ...], texts: tuple[str, ...]) -> _Context:
    said = dict(zip(names, texts, strict=True))
    series = series_digest(tuple(said[name] for name in SERIES_COLUMNS))
    told = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    return _Context(
        gpu_number=number_of(said["uuid"].encode()),
        series_a=int.from_bytes(series[:8], "little", signed=True),
        series_b=int.from_bytes(series[8:], "little", signed=True),
        context=number_of(told),
        told=told,
    )


def _series(contexts: Sequence[_Context]) -> Numbers:
    """A number for each context that is the same for those of one series."""
    seen: dict[tuple[int, int], int] = {}
    return np.array([seen.setdefault((c.series_a, c.series_b), len(seen)) for c in contexts])


def _columns(contexts: Sequence[_Context], names: Sequence[str]) -> dict[str, pa.Array]:
    kinds: dict[str, Any] = {name: pa.int64() for name in _NUMBERS} | {TOLD: pa.binary()}
    return {n: pa.array([getattr(c, n) for c in contexts], kinds[n]) for n in names}


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
