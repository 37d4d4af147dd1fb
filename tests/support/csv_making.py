"""What a CSV source makes of files, for tests."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from nexus.streamer.sources.csv_reader import CsvReader
from nexus.streamer.sources.csv_source import CsvSource
from nexus.streamer.sources.port import Block, Position, Rejected
from nexus.telemetry.csv.head import Place
from support.csv_text import clock


def read(path: Path, *, block_bytes: int | None = None, place: Place | None = None) -> list[Block]:
    """All blocks of a file."""
    reader = CsvReader(path, place or Place(), clock=clock, block_bytes=block_bytes)
    try:
        blocks = []
        while more := reader.next_blocks():
            blocks += more
        return blocks
    finally:
        reader.close()


def rejected(blocks: Iterable[Block]) -> list[Rejected]:
    return [refused for block in blocks for refused in block.rejected]


def reasons(blocks: Iterable[Block]) -> list[tuple[str, int]]:
    """Each refused row's reason and line."""
    return [(r.reason, int(r.where.rpartition(":")[2])) for r in rejected(blocks)]


def drain(source: CsvSource, start: Mapping[str, Position] | None = None) -> list[Block]:
    """All blocks of a source that ends."""

    async def collect() -> list[Block]:
        return [block async for block in source.blocks(start or {})]

    return asyncio.run(collect())
