"""CSV files of readings for tests, and what a source makes of them."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nexus.streamer.sources.csv_reader import CsvReader
from nexus.streamer.sources.csv_restart import Place
from nexus.streamer.sources.csv_source import CsvSource
from nexus.streamer.sources.port import Block, Position, Rejected
from nexus.telemetry.reading import plain

LONG_HEADER = (
    "timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,container,pod,namespace,"
    "value,labels_raw\n"
)
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def clock() -> float:
    return NOW


def long_row(
    n: int = 0,
    *,
    time: str | None = None,
    metric: str = "DCGM_FI_DEV_GPU_UTIL",
    value: str | None = None,
    uuid: str | None = None,
    host: str | None = None,
    gpu: str | None = None,
    extra_labels: str = "",
    end: str = "\n",
) -> str:
    """A row as real dumps have it: every cell quoted, a label set in the last."""
    gpu = str(n % 8) if gpu is None else gpu
    host = f"host-{n // 8 % 100}" if host is None else host
    uuid = f"GPU-{n % 800:08d}" if uuid is None else uuid
    time = f"2025-07-18T20:{n // 60 % 60:02d}:{n % 60:02d}Z" if time is None else time
    labels = ",".join(
        f'{name}=""{text}""'
        for name, text in {
            "DCGM_FI_DRIVER_VERSION": "535.129.03",
            "Hostname": host,
            "UUID": uuid,
            "__name__": metric,
            "gpu": gpu,
            "instance": f"{host}:9400",
        }.items()
    )
    cells = [time, metric, gpu, f"nvidia{gpu}", uuid, "NVIDIA H100 80GB HBM3", host, "", "", ""]
    cells += [str(n / 4) if value is None else value, labels + extra_labels]
    return ",".join(f'"{cell}"' for cell in cells) + end


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


def readings(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return [row for block in blocks for row in plain(block.table).to_pylist()]


def rejected(blocks: Iterable[Block]) -> list[Rejected]:
    return [refused for block in blocks for refused in block.rejected]


def reasons(blocks: Iterable[Block]) -> list[tuple[str, int]]:
    """Each refused row's reason and line."""
    return [(r.reason, int(r.where.rpartition(":")[2])) for r in rejected(blocks)]


def values(blocks: Iterable[Block]) -> list[float]:
    return [reading["source_value"] for reading in readings(blocks)]


def drain(source: CsvSource, start: Mapping[str, Position] | None = None) -> list[Block]:
    """All blocks of a source that ends."""

    async def collect() -> list[Block]:
        return [block async for block in source.blocks(start or {})]

    return asyncio.run(collect())
