"""Rows that agree in several columns get one number, so that work is done once for each kind.

This is what keeps Python out of the rows: a function runs for each distinct combination, and its
result is spread to the rows by index.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import encoded
from nexus.telemetry.scalars import scalar, whole


@dataclass(frozen=True)
class Combined:
    """The distinct combinations of some columns, and which of them each row has."""

    codes: pa.Array  # int32, one a row
    columns: list[pa.Array]  # one an input column, each as long as there are combinations

    def __len__(self) -> int:
        return len(self.columns[0])

    def rows(self) -> list[tuple[str, ...]]:
        """The combinations themselves."""
        return list(zip(*(column.to_pylist() for column in self.columns), strict=True))

    def spread(self, texts: Sequence[str]) -> pa.DictionaryArray:
        """One text for each combination, to a column with a text for each row."""
        compact = pa.array(texts, pa.string()).dictionary_encode()
        return pa.DictionaryArray.from_arrays(compact.indices.take(self.codes), compact.dictionary)


def combine(columns: Sequence[pa.DictionaryArray | pa.ChunkedArray | pa.Array]) -> Combined:
    """Number the combinations of the columns in the order in which they first appear."""
    first, *others = (encoded(column) for column in columns)
    codes, values = first.indices, [first.dictionary]
    for column in others:
        codes, values = _joined(codes, values, column)
    return Combined(codes, values)


def _joined(
    codes: pa.Array, values: list[pa.Array], column: pa.DictionaryArray
) -> tuple[pa.Array, list[pa.Array]]:
    width = len(column.dictionary)
    if width <= 1:
        texts = column.dictionary if width else pa.array([""], pa.string())
        return codes, [*values, texts.take(pa.repeat(scalar(0, pa.int32()), len(values[0])))]
    times = whole(width)
    pairs = pc.add(pc.multiply(codes.cast(pa.int64()), times), column.indices.cast(pa.int64()))
    distinct = pairs.dictionary_encode()
    before = pc.divide(distinct.dictionary, times)
    after = pc.subtract(distinct.dictionary, pc.multiply(before, times))
    return distinct.indices, [
        *(earlier.take(before) for earlier in values),
        column.dictionary.take(after),
    ]
