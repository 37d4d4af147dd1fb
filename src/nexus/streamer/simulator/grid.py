"""A block of ticks by GPUs as flat columns: all GPUs of a tick, then the next tick.

Things that are constant for a while come as runs, GPU by GPU; `spread` lays them out.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Grid:
    """The shape of a block; equal shapes share their index columns (`grid`)."""

    ticks: int
    gpus: int

    @cached_property
    def gpu(self) -> pa.Array:
        """The GPU of each cell."""
        return pa.array(list(range(self.gpus)) * self.ticks, pa.int32())

    @cached_property
    def tick(self) -> pa.Array:
        """The tick of each cell, counted from the block's first."""
        runs = pa.array(range(self.gpus, (self.ticks + 1) * self.gpus, self.gpus), pa.int32())
        return _decoded(runs, pa.array(range(self.ticks), pa.int64()))

    @cached_property
    def _cell_of_run(self) -> pa.Array:
        return pa.array(
            [
                at
                for tick in range(self.ticks)
                for at in range(tick, self.ticks * self.gpus, self.ticks)
            ],
            pa.int32(),
        )

    def spread(self, rows: list[int], lengths: list[int]) -> pa.Array:
        """Runs that fill one GPU's ticks after the other's, as the row for each cell."""
        ends = pa.array(accumulate(lengths), pa.int32())
        by_gpu = _decoded(ends, pa.array(rows, pa.int32()))
        return by_gpu if self.ticks == 1 else by_gpu.take(self._cell_of_run)

    def of_gpus(self, column: pa.Array) -> pa.Array:
        """A column with a value for each GPU, repeated for every tick."""
        return column.take(self.gpu)


@cache
def _grid(ticks: int, gpus: int) -> Grid:
    return Grid(ticks, gpus)


def grid(ticks: int, gpus: int) -> Grid:
    """The grid of a shape; made once, since a simulation uses two or three."""
    return _grid(ticks, gpus)


def _decoded(ends: pa.Array, values: pa.Array) -> pa.Array:
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))
