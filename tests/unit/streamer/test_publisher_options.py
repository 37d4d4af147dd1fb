"""From the streamer's settings to its publisher: how messages are gathered."""

from pathlib import Path

import pytest

from nexus.settings import FlagValue
from nexus.settings.streamer import load_streamer_settings
from nexus.streamer.build import publisher_options


@pytest.mark.parametrize(("encoding", "linger_ms"), [("json", 100), ("arrow", 1)])
def test_an_encoding_has_a_linger_of_its_own_and_batches_as_large_as_can_be(
    encoding: str, linger_ms: int
) -> None:
    flags = {"streamer.encoding": FlagValue("--encoding", encoding)}
    options = publisher_options(load_streamer_settings(flags=flags, environ={}))
    assert (options.linger_ms, options.batch_bytes) == (linger_ms, None)


@pytest.mark.parametrize("encoding", ["json", "arrow"])
@pytest.mark.parametrize("linger_ms", [0, 300])
def test_the_file_decides_for_every_encoding(tmp_path: Path, encoding: str, linger_ms: int) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text(
        f"streamer: {{encoding: {encoding}}}\n"
        f"performance: {{batch_size: 4KB, linger_time: {linger_ms}ms}}\n"
    )
    options = publisher_options(load_streamer_settings(file, environ={}))
    assert (options.linger_ms, options.batch_bytes) == (linger_ms, 4096)
