"""Spans as readings: tables of the source schema, and the long CSV.

Both give the same readings in the same order, the one of real dumps: tick by tick, all GPUs of
one metric and then the next. What stays the same for many ticks is made once, as a `Layout`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator import columns as col
from nexus.streamer.simulator.csv_text import CsvText
from nexus.streamer.simulator.layout import Layout
from nexus.streamer.simulator.metrics import BLANK, QUANTITIES, Form
from nexus.streamer.simulator.physics import Samples
from nexus.streamer.simulator.simulation import Simulation, Span
from nexus.streamer.simulator.table_columns import TableColumns
from nexus.streamer.simulator.times import timestamp_text

_MEMORY_TEMP: Final = [quantity.column for quantity in QUANTITIES].index("memory_temp")


class Renderer:
    """Renders the GPUs of a fleet that a share has; all of them without `owns`."""

    def __init__(
        self, simulation: Simulation, owns: Callable[[str], bool] = lambda hostname: True
    ) -> None:
        fleet = simulation.fleet
        self._config = simulation.config
        self._order = [at for at in fleet.order if owns(fleet.gpus[at].host.name)]
        self._gpus = [fleet.gpus[at] for at in self._order]
        self._picked = pa.array(self._order, pa.int32())
        self._places: tuple[int, pa.Array] | None = None
        self._layout: Layout | None = None
        self._text = CsvText(self._gpus)
        self._table = TableColumns(self._gpus)

    @property
    def rows_a_tick(self) -> int:
        """At most so many."""
        return len(self._gpus) * len(QUANTITIES)

    def csv(self, span: Span) -> Iterator[tuple[int, memoryview]]:
        """The span's rows as CSV without a header, one piece a tick: its rows, its bytes."""
        values = self._in_order(span, _TEXT)
        for tick, layout in self._layouts(span):
            mine = values.slice(tick * self.rows_a_tick, self.rows_a_tick)
            if layout.rows:
                time = timestamp_text(self._config.time_ms(span.first + tick))
                yield layout.rows, self._text.rows(layout, time, mine)

    def table(self, span: Span) -> pa.Table:
        """The span's rows with the columns of the source schema but `ingested`."""
        values = self._in_order(span, _VALUE)
        ticks = [
            self._table.rows(
                layout,
                self._config.time_ms(span.first + tick),
                values.slice(tick * self.rows_a_tick, self.rows_a_tick),
            )
            for tick, layout in self._layouts(span)
        ]
        return pa.concat_tables(ticks).unify_dictionaries().combine_chunks()

    def _in_order(self, span: Span, said: Callable[[Form, pa.Array], pa.Array]) -> pa.Array:
        """Every row's value, silent ones too."""
        columns = _columns(span.samples, said)
        return pa.concat_arrays(columns).take(self._place_of(span))

    def _place_of(self, span: Span) -> pa.Array:
        """Where each row's value is when the quantities' columns lie one after the other."""
        if self._places is None or self._places[0] != span.ticks:
            all_gpus = span.samples.grid.gpus
            starts = [
                (quantity * span.ticks + tick) * all_gpus
                for tick in range(span.ticks)
                for quantity in range(len(QUANTITIES))
            ]
            mine = len(self._order)
            ends = pa.array(range(mine, mine * (len(starts) + 1), mine), pa.int32())
            runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(starts, pa.int32()))
            offsets = pa.array(self._order * len(starts), pa.int32())
            self._places = span.ticks, col.add(pc.run_end_decode(runs), offsets)
        return self._places[1]

    def _layouts(self, span: Span) -> Iterator[tuple[int, Layout]]:
        """Every tick of the span with its layout."""
        changes = {0, *span.changes}
        rows = span.samples.grid.spread(span.jobs.rows, span.jobs.lengths)
        for tick in range(span.ticks):
            if tick in changes or self._layout is None:
                self._layout = self._layout_at(span, tick, rows, self._layout)
            yield tick, self._layout

    def _layout_at(self, span: Span, tick: int, rows: pa.Array, last: Layout | None) -> Layout:
        """The layout at a tick; the last one itself if nothing that it shows has changed."""
        here = col.add(self._picked, tick * span.samples.grid.gpus)
        holders = [span.jobs.holdings[row] for row in rows.take(here).to_pylist()]
        silent = span.samples.silent.take(here)
        upgraded = span.samples.generation.take(here)
        if last is not None and last.shows(holders, silent, upgraded):
            return last
        same_silence = last is not None and last.silent.equals(silent)
        cells = last.cells if last is not None and same_silence else self._present(silent)
        count = self.rows_a_tick if cells is None else len(cells)
        return Layout(holders, silent, upgraded, cells, count)

    def _present(self, silent: pa.Array) -> pa.Array | None:
        """The rows that are reported: not a silent host's, no sensor that a model lacks."""
        sensed = pa.array([gpu.host.model.has_memory_temp for gpu in self._gpus], pa.bool_())
        present = [pc.invert(silent)] * len(QUANTITIES)
        present[_MEMORY_TEMP] = pc.and_(present[_MEMORY_TEMP], sensed)
        flags = pa.concat_arrays(present)
        return None if pc.all(flags).as_py() else pc.indices_nonzero(flags).cast(pa.int32())


def _columns(samples: Samples, said: Callable[[Form, pa.Array], pa.Array]) -> Sequence[pa.Array]:
    """Each quantity of every cell as its exporter says it."""
    upgraded = samples.generation if pc.any(samples.generation).as_py() else None
    blank = samples.blank if pc.any(samples.blank).as_py() else None
    columns = []
    for quantity in QUANTITIES:
        column = samples.columns[quantity.column]
        if quantity.profiled and blank is not None:
            column = col.choose(blank, 0, column)
        out = said(quantity.old, column)
        if upgraded is not None and quantity.old != quantity.new:
            out = col.choose(upgraded, said(quantity.new, column), out)
        if quantity.profiled and blank is not None:
            out = col.choose(blank, said(_BLANK, pa.array([BLANK], pa.int64()))[0], out)
        columns.append(out)
    return columns


_TEXT: Final = Form.text
_VALUE: Final = Form.value
_BLANK: Final = Form("", "")
