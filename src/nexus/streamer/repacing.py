"""A pace that can be changed while readings flow: what is under way goes on at the new one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pyarrow as pa

from nexus.streamer.pacing import Pacer

Make = Callable[[], Pacer]


class Pace:
    """Makes a pacer for each pass; those that are at work hear of a change."""

    def __init__(self, make: Make) -> None:
        self.make = make

    def change(self, make: Make) -> None:
        """From any thread; a piece that waits for its time already is given out first."""
        self.make = make

    def pacer(self) -> Pacer:
        """For one pass."""
        return _Repaced(self)


class _Repaced:
    """Gives out pieces as the pace of the moment says."""

    def __init__(self, pace: Pace) -> None:
        self._pace, self._make = pace, pace.make
        self._pacer = self._make()

    async def pieces(self, table: pa.Table) -> AsyncIterator[pa.Table]:
        given = 0
        while True:
            self._look()
            async for piece in self._pacer.pieces(table.slice(given)):
                yield piece
                given += piece.num_rows
                if self._has_changed:
                    break
            if given >= table.num_rows:
                return

    @property
    def _has_changed(self) -> bool:
        return self._pace.make is not self._make

    def _look(self) -> None:
        if self._has_changed:
            self._make = self._pace.make
            self._pacer = self._make()
