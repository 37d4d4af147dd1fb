"""A source's URL finds its kind, and a wrong one says which kinds there are."""

import asyncio
from pathlib import Path

import pytest

from nexus.streamer.sources import UnknownSource, kind_of, open_source
from nexus.streamer.sources.port import Shard, Source, SourceOptions
from nexus.streamer.sources.recording import recording_path


def opened(url: str) -> tuple[str, bool]:
    async def story() -> tuple[str, bool]:
        source = open_source(url, SourceOptions())
        described = source.describe(), source.live
        await source.close()
        return described

    return asyncio.run(story())


def test_files_wait_and_scrapes_do_not(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x")
    assert opened(f"csv://{path}") == (f"CSV file {path}", False)
    assert opened("exporter://127.0.0.1:9400")[1]
    assert not opened("sim://?hosts=1&gpus=1")[1]


def test_the_recording_comes_with_the_package() -> None:
    assert recording_path().is_file()

    async def first_rows() -> int:
        source: Source = open_source("recording://", SourceOptions())
        async for block in source.blocks({}):
            assert block.rejected == []
            return int(block.table.num_rows)
        return 0

    assert asyncio.run(first_rows()) > 1000


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(UnknownSource, match="csv://, exporter://, nvml://, sim://, recording://"):
        kind_of("ftp://x")


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_name_has_exactly_one_owner(count: int) -> None:
    shards = [Shard(index, count) for index in range(count)]
    owners = [sum(shard.owns(f"host-{n}") for shard in shards) for n in range(200)]
    assert owners == [1] * 200
    shares = [sum(shard.owns(f"host-{n}") for n in range(200)) for shard in shards]
    assert min(shares) > 0
