"""The wide form turned long: a reading for each cell that has a value, row by row."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.csv.forms import MetricColumn
from nexus.telemetry.reading import encoded, source_table


def melt(
    rows: dict[str, pa.Array],
    metrics: Sequence[MetricColumn],
    values: Sequence[pa.Array],
    good: pa.Array | None,
) -> pa.Table:
    """Readings in the order of the rows, so that time goes on as it does in the file.

    `values` has a column for each metric, null where nothing was collected; rows that are not
    good are left out.
    """
    present = [_present(column, good) for column in values]
    row = pa.concat_arrays(present)
    metric = pa.concat_arrays(
        [pa.repeat(pa.scalar(i, pa.int32()), len(found)) for i, found in enumerate(present)]
    )
    value = pa.concat_arrays(
        [column.take(found) for column, found in zip(values, present, strict=True)]
    )
    order = pc.sort_indices(pc.add(pc.multiply(row, len(metrics)), metric))
    row, metric = row.take(order), metric.take(order)
    names = _spread([column.name for column in metrics], metric)
    units = _spread([column.unit for column in metrics], metric)
    columns = {name: column.take(row) for name, column in rows.items()}
    return source_table(
        {**columns, "source_metric": names, "unit": units, "source_value": value.take(order)}
    )


def _present(column: pa.Array, good: pa.Array | None) -> pa.Array:
    there = pc.is_valid(column)
    kept = there if good is None else pc.and_(there, good)
    return pc.indices_nonzero(kept).cast(pa.int64())


def _spread(texts: list[str], metric: pa.Array) -> pa.DictionaryArray:
    known = encoded(pa.array(texts, pa.string()))
    return pa.DictionaryArray.from_arrays(known.indices.take(metric), known.dictionary)
