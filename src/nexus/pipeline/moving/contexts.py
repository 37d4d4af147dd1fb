"""Readings as stores take them that keep texts apart: numbers, and the number of a context."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.narrow import NUMBER_COLUMNS, TEXT_COLUMNS, context_numbers, series_numbers
from nexus.telemetry.reading import in_one_piece


class Contexts:
    """The contexts of some readings, which are numbered as the pipeline numbers them."""

    def __init__(self, rows: pa.Table) -> None:
        series = series_numbers(rows)
        numbers = {"series_a": series[0], "series_b": series[1]}
        numbers["context"] = context_numbers(rows, series)[0]
        self._rows = rows
        self.readings = rows.select(list(NUMBER_COLUMNS))  # with the numbers of their contexts
        for name, values in numbers.items():
            self.readings = self.readings.append_column(name, pa.array(values))

    def told(self, hashes: pa.Array) -> pa.Table:
        """What these contexts say: their texts, `hash`, and both halves of their series."""
        at = pc.index_in(hashes, value_set=in_one_piece(self.readings.column("context")))
        texts = self._rows.select(list(TEXT_COLUMNS)).take(at)
        for name in ("series_a", "series_b"):
            texts = texts.append_column(name, self.readings.column(name).take(at))
        return texts.append_column("hash", hashes)
