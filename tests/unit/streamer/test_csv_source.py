"""A source reads files, directories and patterns, its share of them, and from where it was."""

import asyncio
import gzip
from pathlib import Path

import pytest

from nexus.streamer.sources.csv_restart import is_done
from nexus.streamer.sources.csv_source import CsvSource
from nexus.streamer.sources.port import Block, Position, Shard, SourceOptions
from nexus.telemetry.csv.files import UNKNOWN_FORM, NoSuchFiles, path_of
from nexus.telemetry.csv.forms import UnknownCsvForm
from support.csv_making import drain, rejected
from support.csv_text import LONG_HEADER, clock, long_row, readings, values


def make(path: Path, *numbers: int) -> Path:
    text = (LONG_HEADER + "".join(long_row(n) for n in numbers)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def source(location: Path | str, options: SourceOptions | None = None) -> CsvSource:
    return CsvSource(str(location), options or SourceOptions(), clock=clock, block_bytes=2000)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    make(tmp_path / "a.csv", 1, 2)
    make(tmp_path / "b.csv.gz", 3)
    make(tmp_path / "c.csv", 4)
    (tmp_path / "notes.txt").write_text("not one of them")
    (tmp_path / "empty.csv").touch()
    return tmp_path


def test_a_directory_is_its_csv_files_in_order(files: Path) -> None:
    assert values(drain(source(files))) == [0.25, 0.5, 0.75, 1.0]
    assert source(files).describe() == f"4 CSV files in {files}"


def test_a_pattern_is_the_files_that_fit(files: Path) -> None:
    assert values(drain(source(f"csv://{files}/[ac].csv"))) == [0.25, 0.5, 1.0]
    assert values(drain(source(f"{files}/**/*.gz"))) == [0.75]


def test_a_url_is_a_path(files: Path) -> None:
    spaced = make(files / "with space?.csv", 8)
    assert values(drain(source(f"csv://{files}/with%20space?.csv"))) == [2.0]
    assert path_of("csv:///data/x.csv") == "/data/x.csv"
    assert path_of("csv://relative/x.csv") == "relative/x.csv"
    assert source(spaced).describe() == f"CSV file {spaced}"


def test_each_file_goes_on_where_its_own_position_is(files: Path) -> None:
    make(files / "a.csv", *range(40))
    blocks = drain(source(files))
    seen: dict[str, Position] = {}
    for n, block in enumerate(blocks):
        assert block.position is not None
        seen[block.position.stream] = block.position
        assert readings(drain(source(files), seen)) == readings(blocks[n + 1 :])


def test_a_second_pass_is_like_the_first(files: Path) -> None:
    async def twice() -> list[list[float]]:
        again = source(files)
        return [values([block async for block in again.blocks({})]) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first == second == [0.25, 0.5, 0.75, 1.0]


def test_a_gzip_that_was_read_is_not_unpacked_again_unless_it_changed(tmp_path: Path) -> None:
    path = make(tmp_path / "f.csv.gz", *range(30))
    positions = [block.position for block in drain(source(path)) if block.position]
    assert [is_done(path, position) for position in positions] == [
        *(False for _ in positions[1:]),
        True,
    ]
    last = {str(path): positions[-1]}
    assert drain(source(path), last) == []
    with path.open("ab") as file:
        file.write(gzip.compress(long_row(30).encode()))
    assert values(drain(source(path), last)) == [7.5]


def test_shards_share_files_without_overlap(files: Path) -> None:
    shares = [values(drain(source(files, SourceOptions(shard=Shard(i, 3))))) for i in range(3)]
    assert sorted(value for share in shares for value in share) == [0.25, 0.5, 0.75, 1.0]


def test_shards_of_one_file_share_its_hosts(tmp_path: Path) -> None:
    path = make(tmp_path / "f.csv", *range(0, 400, 4))
    with path.open("a") as file:
        file.write(long_row(value="bad"))
    shares = [drain(source(path, SourceOptions(shard=Shard(i, 2)))) for i in range(2)]
    hosts = [{reading["hostname"] for reading in readings(share)} for share in shares]
    assert hosts[0]
    assert hosts[1]
    assert not hosts[0] & hosts[1]
    assert sorted(values(shares[0]) + values(shares[1])) == [float(n) for n in range(100)]
    assert len(rejected(shares[0] + shares[1])) == 1


def test_no_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFiles, match="no CSV file at"):
        drain(source(tmp_path / "nothing.csv"))
    with pytest.raises(NoSuchFiles):
        drain(source(f"{tmp_path}/*.csv"))


def test_a_file_that_is_no_csv_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "stocks.csv"
    path.write_text("open,high,low,close\n1,2,3,4\n")
    with pytest.raises(UnknownCsvForm, match="open, high, low, close"):
        drain(source(path))


def test_among_others_a_file_that_is_no_csv_is_refused_alone(files: Path) -> None:
    (files / "b.csv").write_text("open,high,low,close\n1,2,3,4\n")
    blocks = drain(source(files))
    assert values(blocks) == [0.25, 0.5, 0.75, 1.0]
    (refused,) = rejected(blocks)
    assert (refused.reason, refused.where) == (UNKNOWN_FORM, str(files / "b.csv"))
    assert b"open, high, low, close" in refused.raw


def test_blocks_keep_to_the_asked_number_of_rows(tmp_path: Path) -> None:
    path = make(tmp_path / "f.csv", *range(100))
    options = SourceOptions(block_rows=30)
    blocks = drain(CsvSource(str(path), options, clock=clock))
    assert [block.table.num_rows for block in blocks] == [30, 30, 30, 10]
    first, last = blocks[0].position, blocks[-1].position
    assert first is not None
    assert last is not None
    assert readings(drain(source(path), {str(path): first})) == readings(blocks)
    assert drain(source(path), {str(path): last}) == []


def test_its_size_is_known_for_plain_files_and_gzip(files: Path) -> None:
    texts = [LONG_HEADER + "".join(long_row(n) for n in rows) for rows in ((1, 2), (3,), (4,))]
    assert source(files).size_hint() == sum(map(len, texts))


async def first_of(source: CsvSource) -> Block:
    return await anext(aiter(source.blocks({})))


def test_it_can_be_left_and_closed_at_any_time(tmp_path: Path) -> None:
    path = make(tmp_path / "f.csv", *range(200))

    async def leave() -> None:
        first = source(path)
        blocks = first.blocks({})
        await anext(blocks)
        await first.close()
        await first.close()
        assert len([block async for block in blocks]) <= 2
        second = source(path)
        task = asyncio.create_task(first_of(second))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
