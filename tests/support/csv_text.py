"""CSV text of readings for tests, and what the parser makes of a file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from nexus.telemetry.csv.head import Place, read_head
from nexus.telemetry.csv.reader import RowReader
from nexus.telemetry.csv.rows import Refused, Rows
from nexus.telemetry.csv.text import open_text
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


class HasReadings(Protocol):
    """Rows of a parser or a block of a source."""

    @property
    def table(self) -> pa.Table: ...


def read_rows(
    path: Path, *, block_bytes: int | None = None, place: Place | None = None
) -> list[Rows]:
    """All rows of a file, block by block."""
    with path.open("rb") as file:
        head = read_head(str(path), open_text(file.fileno()))
        if head is None:
            return []
        start = place or head.rows
        text = open_text(file.fileno(), start.offset)
        reader = RowReader(text, head.form, start, clock=clock, block_bytes=block_bytes)
        found = []
        while (taken := reader.take()) is not None:
            found.append(reader.rows(taken))
        return found


def readings(parts: Iterable[HasReadings]) -> list[dict[str, Any]]:
    return [row for part in parts for row in plain(part.table).to_pylist()]


def values(parts: Iterable[HasReadings]) -> list[float]:
    return [reading["source_value"] for reading in readings(parts)]


def refused(parts: Iterable[Rows]) -> list[Refused]:
    return [row for rows in parts for row in rows.refused]


def why_refused(parts: Iterable[Rows]) -> list[tuple[str, int]]:
    """Each refused row's reason and line."""
    return [(row.reason, row.line) for row in refused(parts)]
