"""Files that grow, rotate, are cut or appear are read as they do, each row once."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nexus.streamer.sources.csv_source import CsvSource
from nexus.streamer.sources.port import Block, Position, SourceOptions
from nexus.telemetry.csv.forms import UnknownCsvForm
from support.csv_making import reasons
from support.csv_text import LONG_HEADER, clock, long_row, values


class Following:
    """A source that follows, and what came of it."""

    def __init__(self, location: Path, start: Mapping[str, Position] | None = None) -> None:
        self.source = CsvSource(str(location), SourceOptions(follow=True), clock=clock, poll_s=0.01)
        self.blocks: list[Block] = []
        self._start = start or {}
        self._news = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for block in self.source.blocks(self._start):
            self.blocks.append(block)
            self._news.set()

    async def sees(self, *expected: float) -> None:
        """Wait for these values and no others."""
        async with asyncio.timeout(20):
            while len(values(self.blocks)) < len(expected):
                self._news.clear()
                await self._news.wait()
        assert values(self.blocks) == list(expected)

    def positions(self) -> dict[str, Position]:
        return {b.position.stream: b.position for b in self.blocks if b.position is not None}


@asynccontextmanager
async def following(
    location: Path, start: Mapping[str, Position] | None = None
) -> AsyncIterator[Following]:
    follow = Following(location, start)
    yield follow
    await follow.source.close()
    await follow.task


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def start_file(path: Path, *numbers: int) -> None:
    path.write_text(LONG_HEADER + "".join(long_row(n) for n in numbers))


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        start_file(path, 1)
        async with following(path) as follow:
            await follow.sees(0.25)
            add(path, long_row(2) + long_row(3))
            await follow.sees(0.25, 0.5, 0.75)
            assert follow.positions()[str(path)].state["line"] == 5

    asyncio.run(story())


def test_a_half_written_line_waits_for_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        start_file(path)
        row = long_row(2, extra_labels=',note=""a\nb""')
        async with following(path) as follow:
            add(path, long_row(1) + row[:100])
            await follow.sees(0.25)
            add(path, row[100 : row.index("\n") + 1])  # ends with a line end, but inside a cell
            await asyncio.sleep(0.05)
            await follow.sees(0.25)
            add(path, row[row.index("\n") + 1 :])
            await follow.sees(0.25, 0.5)
            assert reasons(follow.blocks) == []

    asyncio.run(story())


def test_a_file_may_begin_empty_and_with_half_a_header(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        async with following(path) as follow:  # not even there
            path.touch()
            await asyncio.sleep(0.03)
            add(path, LONG_HEADER[:20])
            await asyncio.sleep(0.03)
            add(path, LONG_HEADER[20:] + long_row(1))
            await follow.sees(0.25)

    asyncio.run(story())


def test_a_wide_file_waits_for_its_first_row(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        path.write_text("timestamp,uuid,state,util\n")
        async with following(path) as follow:
            await asyncio.sleep(0.03)
            add(path, "1704110401,GPU-1,P0,7\n")
            await follow.sees(7.0)

    asyncio.run(story())


def test_a_rotated_file_is_read_to_its_end_before_the_new_one(tmp_path: Path) -> None:
    async def story() -> None:
        path, old = tmp_path / "f.csv", tmp_path / "f.csv.1"
        start_file(path, 1)
        async with following(path) as follow:
            await follow.sees(0.25)
            path.rename(old)
            add(old, long_row(2) + long_row(3, end=""))  # its writer still had it open
            start_file(path, 4)
            await follow.sees(0.25, 0.5, 0.75, 1.0)
            add(path, long_row(5))
            await follow.sees(0.25, 0.5, 0.75, 1.0, 1.25)

    asyncio.run(story())


def test_a_truncated_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        start_file(path, 1, 2, 3)
        async with following(path) as follow:
            await follow.sees(0.25, 0.5, 0.75)
            start_file(path, 4)
            await follow.sees(0.25, 0.5, 0.75, 1.0)

    asyncio.run(story())


def test_a_file_overwritten_by_a_longer_one_is_noticed(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        start_file(path, 1, 2, 3)
        async with following(path) as follow:
            await follow.sees(0.25, 0.5, 0.75)
            start_file(path, 4, 5, 6, 7)
            await follow.sees(0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75)

    asyncio.run(story())


def test_files_that_appear_in_a_directory_are_read(tmp_path: Path) -> None:
    async def story() -> None:
        start_file(tmp_path / "a.csv", 1)
        async with following(tmp_path) as follow:
            await follow.sees(0.25)
            start_file(tmp_path / "b.csv", 2)
            await follow.sees(0.25, 0.5)
            add(tmp_path / "a.csv", long_row(3))
            await follow.sees(0.25, 0.5, 0.75)
            assert len(follow.positions()) == 2

    asyncio.run(story())


def test_a_deleted_file_is_let_go(tmp_path: Path) -> None:
    async def story() -> None:
        start_file(tmp_path / "a.csv", 1)
        async with following(tmp_path) as follow:
            await follow.sees(0.25)
            (tmp_path / "a.csv").unlink()
            await asyncio.sleep(0.5)
            start_file(tmp_path / "a.csv", 2)
            await follow.sees(0.25, 0.5)

    asyncio.run(story())


def test_following_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        start_file(path, 1, 2)
        async with following(path) as follow:
            await follow.sees(0.25, 0.5)
        add(path, long_row(3))
        async with following(path, follow.positions()) as again:
            await again.sees(0.75)

    asyncio.run(story())


def test_a_rotation_while_nobody_read_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        start_file(path, 1, 2)
        async with following(path) as follow:
            await follow.sees(0.25, 0.5)
        add(path, long_row(3))
        path.rename(tmp_path / "f.csv.1")
        start_file(path, 4)
        async with following(path, follow.positions()) as again:
            await again.sees(0.75, 1.0)

    asyncio.run(story())


def test_a_file_that_is_no_csv_ends_following_it(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "f.csv"
        path.write_text("open,close\n1,2\n")
        source = CsvSource(str(path), SourceOptions(follow=True), clock=clock)
        with pytest.raises(UnknownCsvForm, match="open, close"):
            await anext(aiter(source.blocks({})))

    asyncio.run(story())
