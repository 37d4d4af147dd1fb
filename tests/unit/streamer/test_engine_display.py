"""What people and programs see while it runs: a panel, log lines, metrics."""

import asyncio
import io
import logging
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from nexus.streamer import display
from nexus.streamer.metrics import StreamerRegistry
from nexus.streamer.report import size_text
from nexus.telemetry.reading import TIMESTAMP, source_table
from support.engines import engine_at
from support.queues import MemoryQueue


def test_the_panel_shows_readings_rate_bytes_lag_errors_and_spool(tmp_path: Path) -> None:
    async def story() -> str:
        engine = engine_at(tmp_path, MemoryQueue())
        engine.stats.acknowledged(1_234_567, 10, 5 << 20)
        engine.stats.reject("no time")
        engine.stats.spool_bytes = 3 << 20
        screen = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
        screen.print(display.panel(engine))
        await engine.close()
        assert isinstance(screen.file, io.StringIO)
        return screen.file.getvalue()

    names, numbers = asyncio.run(story()).splitlines()
    assert names.split() == ["readings", "rate", "bytes", "lag", "errors", "spool", "queue"]
    assert "1,234,567" in numbers
    assert "5.0 MB" in numbers
    assert "0.0 s" in numbers
    assert "3.0 MB" in numbers
    assert "flowing" in numbers


def test_the_panel_shows_each_host_as_its_newest_readings_have_it(tmp_path: Path) -> None:
    async def story() -> str:
        engine = engine_at(tmp_path, MemoryQueue())
        engine.picture.saw(fleet())
        screen = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
        screen.print(display.panel(engine))
        await engine.close()
        assert isinstance(screen.file, io.StringIO)
        return screen.file.getvalue()

    *_, one, two = asyncio.run(story()).splitlines()
    assert one.split()[:2] == ["h1", "2"]
    assert "60%" in one
    assert "0.90 kW" in one
    assert "71 °C" in one
    assert two.split() == ["h2", "1", "-", "-", "-"]


def fleet() -> pa.Table:
    """Two GPUs on one host, one of them read twice, and a host of which nothing shown is known."""
    rows = [
        ("h1", "GPU-a", "DCGM_FI_DEV_GPU_UTIL", 10.0, "percent"),
        ("h1", "GPU-a", "DCGM_FI_DEV_GPU_UTIL", 80.0, "percent"),
        ("h1", "GPU-b", "DCGM_FI_DEV_GPU_UTIL", 40.0, "percent"),
        ("h1", "GPU-a", "DCGM_FI_DEV_POWER_USAGE", 600.0, "W"),
        ("h1", "GPU-b", "DCGM_FI_DEV_POWER_USAGE", 300.0, "W"),
        ("h1", "GPU-a", "DCGM_FI_DEV_GPU_TEMP", 71.0, "C"),
        ("h1", "GPU-b", "DCGM_FI_DEV_GPU_TEMP", 50.0, "C"),
        ("h2", "GPU-c", "DCGM_FI_DEV_FB_USED", 1.0, "MiB"),
    ]
    hosts, uuids, metrics, values, units = zip(*rows, strict=True)
    now = datetime(2025, 1, 1, tzinfo=UTC)
    return source_table(
        {
            "timestamp": pa.array([now] * len(rows), TIMESTAMP),
            "hostname": pa.array(hosts).dictionary_encode(),
            "uuid": pa.array(uuids),
            "source_metric": pa.array(metrics).dictionary_encode(),
            "source_value": pa.array(values),
            "unit": pa.array(units),
        }
    )


def test_the_panel_goes_with_the_run(tmp_path: Path) -> None:
    async def story() -> str:
        engine = engine_at(tmp_path, MemoryQueue())
        screen = Console(file=io.StringIO(), width=120, force_terminal=True)
        shown = asyncio.create_task(display.show_panel(engine, screen))
        await asyncio.sleep(0.05)
        shown.cancel()
        await asyncio.gather(shown, return_exceptions=True)
        await engine.close()
        assert isinstance(screen.file, io.StringIO)
        return screen.file.getvalue()

    assert "readings" in asyncio.run(story())


def test_without_a_terminal_the_numbers_are_log_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        monkeypatch.setattr(display, "_LINE_S", 0.01)
        engine = engine_at(tmp_path, MemoryQueue())
        shown = asyncio.create_task(display.show(engine))
        await asyncio.sleep(0.1)
        shown.cancel()
        await asyncio.gather(shown, return_exceptions=True)
        await engine.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    assert "streaming" in caplog.messages


def test_every_metric_has_a_name_of_ours_and_a_meaning(tmp_path: Path) -> None:
    async def story() -> str:
        engine = engine_at(tmp_path, MemoryQueue())
        engine.stats.reject("no time")
        engine.stats.acknowledged(5, 1, 100)
        text = StreamerRegistry(engine).render().decode()
        await engine.close()
        return text

    text = asyncio.run(story())
    assert "nexus_streamer_readings_acknowledged_total 5.0" in text
    assert 'nexus_streamer_rows_rejected_total{reason="no time"} 1.0' in text
    assert "nexus_streamer_queue_away 0.0" in text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (5 << 40, "5120.0 GB")]
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert size_text(size) == text
