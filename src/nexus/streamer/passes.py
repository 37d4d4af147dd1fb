"""Blocks to pieces: without what was sent before a restart, restamped, and at the right pace.

A pass is one time through the source. Its base time is on disk before its first piece is given
out, and the next pass begins only when all of this one is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pyarrow as pa

from nexus.streamer.checkpoint import Progress, State
from nexus.streamer.pacing import Clock, Pacer, Sleep
from nexus.streamer.parcels import Piece
from nexus.streamer.restamp import first_time_us
from nexus.streamer.sources.port import Block, Json, Source


@dataclass(frozen=True, slots=True)
class PassOptions:
    """How the source is gone through."""

    loop: bool = False
    restamp: bool = False
    pass_s: float = 0.0  # a pass of a loop takes at least so long


@dataclass(frozen=True, slots=True)
class Hooks:
    """What going through a source needs of those around it."""

    make_pacer: Callable[[], Pacer]
    persist: Callable[[], Awaitable[None]]
    wait_safe: Callable[[], Awaitable[None]]
    now_us: Callable[[], int]
    clock: Clock
    sleep: Sleep = asyncio.sleep


class Passes:
    """Goes through a source once, or again and again."""

    def __init__(self, source: Source, state: State, options: PassOptions, hooks: Hooks) -> None:
        self._source, self._state, self._options, self._hooks = source, state, options, hooks
        self._skips: dict[str, int] = {}
        # Of each stream, the last state that a block came with, and how many readings came since.
        self._states: dict[str, Mapping[str, Json]] = {}
        self._since: dict[str, int] = {}

    async def pieces(self) -> AsyncIterator[Piece]:
        """Every piece of every pass, each when it is due."""
        while True:
            began = self._hooks.clock()
            async for piece in self._one_pass():
                yield piece
            if not self._options.loop:
                return
            await self._hooks.wait_safe()
            self._state.next_pass()
            await self._hooks.persist()
            left = began + self._options.pass_s - self._hooks.clock()
            if left > 0:
                await self._hooks.sleep(left)

    async def _one_pass(self) -> AsyncIterator[Piece]:
        self._skips, self._since = self._state.skips(), {}
        self._states = {name: p.state for name, p in self._state.streams.items()}
        pacer = self._hooks.make_pacer()
        async with _closing(self._source.blocks(self._state.positions())) as blocks:
            async for block in blocks:
                table, skipped = self._unsent(block)
                if table.num_rows and self._options.restamp:
                    await self._begin(table)
                async for piece in self._paced(block, table, skipped, pacer):
                    yield piece

    def _unsent(self, block: Block) -> tuple[pa.Table, int]:
        """The block's readings without those that were safe before a restart, and their number."""
        stream = _stream(block)
        skipped = min(self._skips.get(stream, 0), block.table.num_rows)
        if skipped:
            self._skips[stream] -= skipped
        return block.table.slice(skipped), skipped

    async def _begin(self, table: pa.Table) -> None:
        """Fix the pass's base before its first reading can be sent."""
        current = self._state.current
        if current.base_us is None:
            current.base_us = max(self._hooks.now_us(), self._state.last_stamp_us + 1)
            current.origin_us = first_time_us(table)
            await self._hooks.persist()

    async def _paced(
        self, block: Block, table: pa.Table, skipped: int, pacer: Pacer
    ) -> AsyncIterator[Piece]:
        shift = self._state.current.shift_us if self._options.restamp else None
        given = 0
        if table.num_rows:
            async for part in pacer.pieces(table):
                given += part.num_rows
                if given < table.num_rows:
                    yield Piece(part, self._within(block, skipped + given), (), shift)
                else:
                    yield Piece(part, self._behind(block), block.rejected, shift)
        else:
            yield Piece(table, self._behind(block), block.rejected, shift)

    def _within(self, block: Block, rows: int) -> Progress | None:
        """So many readings into the block: a place behind the last state before it."""
        if block.position is None:
            return None
        stream = block.position.stream
        since = self._since.get(stream, 0) + rows
        return Progress(stream, self._states.get(stream, {}), since)

    def _behind(self, block: Block) -> Progress | None:
        """The end of the block. A source may give one state to several blocks in a row, to be
        read again from there: then the place is so many readings behind it."""
        if block.position is None:
            return None
        stream, state = block.position.stream, block.position.state
        if self._states.get(stream) == state:
            self._since[stream] = self._since.get(stream, 0) + block.table.num_rows
            return Progress(stream, state, self._since[stream])
        self._states[stream], self._since[stream] = state, 0
        return Progress(stream, state, self._skips.get(stream, 0))


@asynccontextmanager
async def _closing(blocks: AsyncIterator[Block]) -> AsyncIterator[AsyncIterator[Block]]:
    """A source's generator ends with its reader, not whenever it is collected."""
    try:
        yield blocks
    finally:
        if isinstance(blocks, AsyncGenerator):
            await blocks.aclose()


def _stream(block: Block) -> str:
    return block.position.stream if block.position is not None else ""
