"""Readings from CSV files: one, a directory's, or all that a pattern names; gzip or plain.

Every file is a stream of its own with its own position. Without `follow` the files are read one
after the other in the order of their names and then it ends; with it, files that grow, rotate or
appear are read as they do, and it goes on until it is closed. Of one file shared by several
streamers each reads its hosts; of several files each reads its files.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.sources.csv_follow import FollowedFile
from nexus.streamer.sources.csv_reader import CsvReader
from nexus.streamer.sources.csv_restart import Start, is_done, where_to_start
from nexus.streamer.sources.port import Block, Position, Rejected, Shard, SourceOptions
from nexus.telemetry.csv.files import (
    UNKNOWN_FORM,
    UNREADABLE_FILE,
    NoSuchFiles,
    find_files,
    is_pattern,
    path_of,
    text_size,
)
from nexus.telemetry.csv.forms import UnknownCsvForm
from nexus.telemetry.csv.rows import empty_table
from nexus.telemetry.reading import encoded


class CsvSource:
    """The source behind `csv://` URLs and plain paths."""

    live = False

    def __init__(
        self,
        location: str,
        options: SourceOptions = SourceOptions(),  # noqa: B008 - frozen
        *,
        clock: Callable[[], float] = time.time,
        poll_s: float = 0.5,
        block_bytes: int | None = None,
    ) -> None:
        self.location = path_of(location)
        self._options = options
        self._clock = clock
        self._poll_s = poll_s
        self._block_bytes = block_bytes
        self._closed = asyncio.Event()

    def describe(self) -> str:
        files = self._files()
        what = "1 CSV file" if len(files) == 1 else f"{len(files)} CSV files"
        return f"{what} in {self.location}" if self._is_many() else f"CSV file {self.location}"

    def size_hint(self) -> int | None:
        """Bytes to read in one pass; unknown for files that grow."""
        if self._options.follow:
            return None
        with suppress(OSError):
            return sum(text_size(path) for path in self._files())
        return None

    async def close(self) -> None:
        self._closed.set()

    async def blocks(self, start: Mapping[str, Position]) -> AsyncIterator[Block]:
        """Every file's blocks from its position on, or from its beginning."""
        each = self._follow(start) if self._options.follow else self._read_all(start)
        async with aclosing(each):
            async for block in each:
                yield self._share(block)

    async def _read_all(self, start: Mapping[str, Position]) -> AsyncGenerator[Block, None]:
        files = await asyncio.to_thread(self._files)
        if not files and not find_files(self.location):
            raise NoSuchFiles(f"there is no CSV file at {self.location}")
        unfit: list[Exception] = []
        for path in files:
            try:
                async with aclosing(self._read(path, start.get(str(path)))) as blocks:
                    async for block in blocks:
                        yield block
            except (UnknownCsvForm, OSError) as error:
                unfit.append(error)
                if len(unfit) == len(files):  # not one of them is any good
                    raise unfit[0] from None
                yield _unfit(path, error)

    async def _read(self, path: Path, position: Position | None) -> AsyncGenerator[Block, None]:
        if await asyncio.to_thread(is_done, path, position):
            return
        for start in await asyncio.to_thread(where_to_start, path, position):
            reader = await asyncio.to_thread(self._reader, path, start)
            try:
                async with aclosing(_ahead(reader, self._closed)) as blocks:
                    async for block in blocks:
                        yield block
            finally:
                reader.close()

    async def _follow(self, start: Mapping[str, Position]) -> AsyncGenerator[Block, None]:
        followed: dict[Path, FollowedFile] = {}
        unfit: set[Path] = set()
        try:
            while not self._closed.is_set():
                idle = True
                for file in await asyncio.to_thread(self._followed, followed, start):
                    if file.path in unfit:
                        continue
                    try:
                        blocks = await asyncio.to_thread(file.next_blocks)
                    except (UnknownCsvForm, OSError) as error:
                        if not self._is_many():
                            raise
                        unfit.add(file.path)
                        blocks = [_unfit(file.path, error)]
                    for block in blocks:
                        idle = False
                        yield block
                if idle:
                    await self._pause()
        finally:
            for file in followed.values():
                file.close()

    def _followed(
        self, followed: dict[Path, FollowedFile], start: Mapping[str, Position]
    ) -> list[FollowedFile]:
        """All files by now: those that are new, those that were there, but none that is gone."""
        for path in [path for path, file in followed.items() if file.gone]:
            followed.pop(path).close()
        for path in self._files():
            if path not in followed:
                opener = self._opener(path)
                followed[path] = FollowedFile(path, start.get(str(path)), opener)
        return list(followed.values())

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), self._poll_s)

    def _opener(self, path: Path) -> Callable[[Start], CsvReader]:
        return lambda start: self._reader(path, start)

    def _reader(self, path: Path, start: Start) -> CsvReader:
        return CsvReader(
            start.path,
            start.place,
            stream=str(path),
            clock=self._clock,
            block_bytes=self._block_bytes,
            block_rows=self._options.block_rows,
        )

    def _files(self) -> list[Path]:
        files = find_files(self.location)
        if not self._is_many():
            return files
        return [path for path in files if self._options.shard.owns(str(path))]

    def _is_many(self) -> bool:
        path = Path(self.location)
        return path.is_dir() or (not path.exists() and is_pattern(self.location))

    def _share(self, block: Block) -> Block:
        shard = self._options.shard
        if shard.count == 1 or self._is_many():
            return block
        if not shard.owns(self.location):
            block.rejected = []  # every shard reads the whole file: one of them reports
        block.table = hosts_of(block.table, shard)
        return block


def hosts_of(table: pa.Table, shard: Shard) -> pa.Table:
    """The readings of the shard's hosts (of its GPUs where no host is named)."""
    hosts = encoded(table.column("hostname"))
    if not pc.any(pc.not_equal(hosts.dictionary, "")).as_py():
        hosts = encoded(table.column("uuid"))
    mine = pa.array([shard.owns(name) for name in hosts.dictionary.to_pylist()], pa.bool_())
    return table.filter(mine.take(hosts.indices))


async def _ahead(reader: CsvReader, closed: asyncio.Event) -> AsyncGenerator[Block, None]:
    """The reader's blocks; the next are made while the last are being used.

    Two threads work at a time: one parses a block while the other finishes the one before.
    """
    ready: asyncio.Queue[list[Block] | Exception] = asyncio.Queue(maxsize=1)
    making = asyncio.create_task(_make(reader, ready))
    try:
        while not closed.is_set() and (blocks := await ready.get()):
            if isinstance(blocks, Exception):
                raise blocks
            for block in blocks:
                yield block
    finally:
        # Threads end by themselves; the reader's lock keeps its file open until then.
        await _ended(making)


async def _make(reader: CsvReader, ready: "asyncio.Queue[list[Block] | Exception]") -> None:
    # A thread for each half: memory that one of them freed is there for its next block.
    run = asyncio.get_running_loop().run_in_executor
    with _thread("csv-parse") as parser, _thread("csv-rows") as finisher:
        coming = run(parser, reader.take)
        try:
            while (taken := await coming) is not None:
                coming = run(parser, reader.take)
                await ready.put(await run(finisher, reader.finish, taken))
            await ready.put([])
        except Exception as error:  # noqa: BLE001 - raised again where the blocks are awaited
            await ready.put(error)
        finally:
            await _ended(coming)


@contextmanager
def _thread(name: str) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(1, name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False)


async def _ended(task: "asyncio.Future[Any]") -> None:
    """Let a task end whose outcome nobody wants any more."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _unfit(path: Path, error: Exception) -> Block:
    reason = UNREADABLE_FILE if isinstance(error, OSError) else UNKNOWN_FORM
    return Block(empty_table(), None, [Rejected(reason, str(path), str(error).encode())])
