"""What the producers' keys of `performance` say, and whether anybody said it."""

from pathlib import Path

import pytest

from nexus.settings import SettingsError
from nexus.settings.producer import ProducerSettings, load_producer_settings
from nexus.settings.streamer import load_streamer_settings

FILE = "performance: {batch_size: 16KB, linger_time: 5ms, max_connections: 7}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nexus.yaml"
    path.write_text(FILE)
    return path


def test_a_default_is_not_given(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("performance: {max_connections: 7}\n")
    assert load_producer_settings(environ={}) == ProducerSettings(None, None)
    assert load_producer_settings(other, environ={}) == ProducerSettings(None, None)
    assert load_streamer_settings(other, environ={}).producer == ProducerSettings(None, None)


def test_the_file_gives_them_even_where_it_repeats_the_default(file: Path) -> None:
    given = ProducerSettings(linger_ms=5, batch_bytes=16_384)
    assert load_producer_settings(file, environ={}) == given
    assert load_producer_settings(environ={"NEXUS_CONFIG": str(file)}) == given
    assert load_streamer_settings(file, environ={}).producer == given


def test_the_environment_beats_the_file_and_gives_one_alone(file: Path) -> None:
    environ = {"NEXUS_PERFORMANCE_LINGER_TIME": "0ms"}
    assert load_producer_settings(file, environ=environ) == ProducerSettings(0, 16_384)
    assert load_producer_settings(environ=environ) == ProducerSettings(0, None)
    assert load_streamer_settings(environ=environ).producer == ProducerSettings(0, None)


def test_the_streamer_may_not_linger_until_the_queue_counts_as_away(tmp_path: Path) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text("streamer: {away_after: 2s}\nperformance:\n  linger_time: 1999ms\n")
    assert load_streamer_settings(file, environ={}).producer.linger_ms == 1999
    file.write_text("performance:\n  linger_time: 3s\n")
    says = rf"{file}:2: performance\.linger_time: contradicts streamer\.away_after; "
    with pytest.raises(SettingsError, match=says):
        load_streamer_settings(file, environ={})
