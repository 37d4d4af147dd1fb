"""The rows of a tick while holders, silence and names stay as they are."""

from dataclasses import dataclass

import pyarrow as pa

from nexus.streamer.simulator.workloads import Holding


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Who holds each GPU (in the dump's order), which are silent, which have new names.

    `cells` are the places of the reported rows among all quantities of all GPUs, quantity by
    quantity; None when every one is reported.
    """

    holders: list[Holding | None]
    silent: pa.Array
    upgraded: pa.Array
    cells: pa.Array | None
    rows: int

    def shows(self, holders: list[Holding | None], silent: pa.Array, upgraded: pa.Array) -> bool:
        """Whether it is the layout of these."""
        return (
            self.holders == holders
            and self.silent.equals(silent)
            and self.upgraded.equals(upgraded)
        )

    def reported(self, column: pa.Array) -> pa.Array:
        """Of a column with all quantities of all GPUs, the rows that are reported."""
        return column if self.cells is None else column.take(self.cells)
