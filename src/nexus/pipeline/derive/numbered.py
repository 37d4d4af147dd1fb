"""Rows of any table in the form in which they cross Spark: numbers, and what they stand for.

As in `nexus.pipeline.narrow`, text crosses beside the rows (see `contexts`); here for any table,
and with no more columns than a job needs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.contexts import Learned, Teller, hashes, lanes
from nexus.pipeline.derive.parts import Reduce
from nexus.pipeline.narrow import series_numbers
from nexus.telemetry.combine import combine
from nexus.telemetry.identity import SERIES_COLUMNS
from nexus.telemetry.reading import in_one_piece
from nexus.telemetry.scalars import scalar

# Of every row: the lane of its GPU, both halves of its series, and what its text columns say.
LANE, SERIES, CONTEXT, TOLD = "lane", ("series_a", "series_b"), "context", "told"
_NUMBERS: Final = {LANE: pa.int32(), **dict.fromkeys((*SERIES, CONTEXT), pa.int64())}


def numbered_schema(carried: Iterable[pa.Field]) -> pa.Schema:
    """The schema of numbered rows with these columns beside; `told` is null but in contexts."""
    numbers = [pa.field(name, kind) for name, kind in _NUMBERS.items()]
    others = [pa.field(field.name, field.type) for field in carried]
    return pa.schema([*numbers, *others, pa.field(TOLD, pa.binary())])


class Numberer:
    """Numbers the rows of one task, in which every context is told once."""

    def __init__(self, text: Sequence[str], schema: pa.Schema, reduce: Reduce | None) -> None:
        self._beside_series = [name for name in text if name not in SERIES_COLUMNS]
        self._schema = schema
        self._reduce = reduce
        self._teller = Teller(text)

    def batches(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table, or what they are reduced to, after the contexts that are new."""
        if not table.num_rows:
            return
        lane, series = lanes(table.column("uuid")), series_numbers(table)
        contexts = hashes(table, self._beside_series, series)
        if told := dict(self._teller.new(table, contexts, lane)):
            yield self._batch(
                len(told),
                {
                    LANE: pa.array(told.keys(), pa.int32()),
                    TOLD: pa.array(told.values(), pa.binary()),
                },
            )
        halves = (lane, *series, contexts[0])
        numbers = {name: pa.array(half) for name, half in zip(_NUMBERS, halves, strict=True)}
        carried: Mapping[str, pa.Array] = self._carried(table)
        if self._reduce is not None:
            kinds = combine([table.column(name) for name in SERIES_COLUMNS])
            reduced = self._reduce(table, kinds.codes.to_numpy())
            numbers = {name: column.take(reduced.rows) for name, column in numbers.items()}
            carried = reduced.columns
        yield self._batch(len(numbers[LANE]), {**numbers, **carried})

    def _carried(self, table: pa.Table) -> dict[str, pa.Array]:
        names = [name for name in self._schema.names if name in table.column_names]
        return {name: in_one_piece(table.column(name)) for name in names}

    def _batch(self, count: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        made = [columns.get(f.name, pa.nulls(count, f.type)) for f in self._schema]
        return pa.record_batch(made, schema=self._schema)


class Told:
    """What the contexts of a task's rows say."""

    def __init__(self, rows: pa.Table) -> None:
        """Take the contexts out of all rows of a task; `rows` has the others."""
        is_context = pc.is_valid(rows.column(TOLD))
        self.rows = rows.filter(pc.invert(is_context)).drop_columns([TOLD])
        self._learned = Learned()
        self._learned.learn(rows.filter(is_context).column(TOLD).to_pylist())

    def texts(self, rows: pa.Table, names: Sequence[str]) -> Mapping[str, pa.DictionaryArray]:
        """The text columns of these rows."""
        return self._learned.columns(rows.column(CONTEXT), names)


def first_of_each(rows: pa.Table, key: Sequence[str], order: Mapping[str, str]) -> pa.Table:
    """Of the rows that agree in `key`, the one that comes first by `order`."""
    if rows.num_rows < 2:
        return rows
    by = [*((name, "ascending") for name in key), *order.items()]
    rows = rows.take(pc.sort_indices(rows, by))
    differs = pa.repeat(scalar(False, pa.bool_()), rows.num_rows - 1)
    for name in key:
        column = in_one_piece(rows.column(name))
        differs = pc.or_(differs, pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)))
    return rows.filter(pa.concat_arrays([pa.array([True]), differs]))
