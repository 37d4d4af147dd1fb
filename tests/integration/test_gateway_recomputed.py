"""What the API answers is what a plain recomputation of the source's CSV says."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.files import write_csv
from nexus.telemetry.csv.head import read_head
from nexus.telemetry.csv.reader import RowReader
from nexus.telemetry.csv.text import open_text
from support.gateways import Client, asking, store_readings

# What names mean, written down once more and by hand: canonical name and factor.
MEANINGS: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util", 1 / 100),
    "DCGM_FI_DEV_GPU_UTIL_RATIO": ("gpu_util", 1),
    "DCGM_FI_DEV_POWER_USAGE": ("power", 1),
    "DCGM_FI_DEV_BOARD_POWER_WATTS": ("power", 1),
    "DCGM_FI_DEV_FB_USED": ("memory_used", 1 << 20),
    "DCGM_FI_DEV_FB_USED_BYTES": ("memory_used", 1),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock", 10**6),
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": ("sm_clock", 1),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("engine_active", 1),
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": ("engine_active", 1),
}
BLANK = 140_737_488_355_328.0
SPAN = {"start_time": "2025-01-01T00:00:00Z", "end_time": "2025-01-01T01:00:00Z"}
Row = dict[str, str]


@dataclass
class Source:
    """The CSV's rows as Python's own reader gives them."""

    rows: list[Row]

    @property
    def uuids(self) -> list[str]:
        return sorted({row["uuid"] for row in self.rows})

    def values(self, metric: str, wanted: Callable[[Row], bool]) -> list[tuple[str, float]]:
        """Time and canonical value of what was collected, in order of time."""
        found = []
        for row in self.rows:
            name, factor = MEANINGS.get(row["metric_name"], ("", 1))
            if name == metric and wanted(row) and float(row["value"]) < BLANK:
                found.append((row["timestamp"], float(row["value"]) * factor))
        return sorted(found)

    def last(self, uuid: str) -> dict[str, float]:
        """The last value of each metric, and when anything was last said."""
        return {
            metric: values[-1][1]
            for metric in {name for name, _ in MEANINGS.values()}
            if (values := self.values(metric, lambda row: row["uuid"] == uuid))
        }


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recomputed") / "fleet.csv"
    simulation = Simulation(SimulatorConfig(hosts=2, gpus=4, seed=3, interval_ms=10_000))
    with path.open("wb") as file:
        write_csv(simulation, 66, file)
    return path


@pytest.fixture(scope="module")
def source(csv_file: Path) -> Source:
    return Source(list(csv.DictReader(io.StringIO(csv_file.read_text()))))


@pytest.fixture(scope="module")
def client(csv_file: Path, source: Source) -> Iterator[Client]:
    tables = csv_file.parent / "tables"
    parts = list(_read(csv_file))
    store_readings(tables, *parts)
    end = max(datetime.fromisoformat(row["timestamp"]).timestamp() for row in source.rows)
    with asking(tables, end) as made:
        yield made


def _read(path: Path) -> Iterator[pa.Table]:
    with path.open("rb") as file:
        head = read_head(str(path), open_text(file.fileno()))
        assert head is not None
        text = open_text(file.fileno(), head.rows.offset)
        reader = RowReader(text, head.form, head.rows, block_bytes=1 << 20)
        while (taken := reader.take()) is not None:
            rows = reader.rows(taken).table
            # The streamer's stamp, which is no part of the file.
            yield rows.append_column("ingested", rows.column("timestamp"))


def every(client: Client, path: str, **params: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.json(path, **params, cursor=cursor)
        rows += page["data"]
        cursor = page["next_cursor"]
    return rows


def rank(values: list[float], percent: int) -> float:
    """The nearest rank."""
    ordered = sorted(values)
    return ordered[(len(ordered) * percent + 99) // 100 - 1]


def test_in_dcgm_units_every_reading_is_the_sources_own(client: Client, source: Source) -> None:
    found = every(client, "/api/v1/telemetry", **SPAN, resolution="raw", units="dcgm", limit=3000)
    said = [
        (row["timestamp"], row["uuid"], row["metric_name"], float(row["value"]))
        for row in source.rows
    ]
    wanted = [(*row[:3], None if row[3] >= BLANK else row[3]) for row in said]
    got = [(row["timestamp"], row["uuid"], row["metric"], row["value"]) for row in found]
    assert sorted(got, key=str) == sorted(wanted, key=str)
    assert len(got) > 9000
    assert any(value is None for *_, value in got)
    assert [row["timestamp"] for row in found] == sorted(row["timestamp"] for row in found)


@pytest.mark.parametrize("metric", ["gpu_util", "power", "memory_used", "sm_clock"])
def test_raw_readings_of_a_gpu(client: Client, source: Source, metric: str) -> None:
    for uuid in source.uuids:
        path = f"/api/v1/gpus/{uuid}/telemetry"
        found = every(client, path, **SPAN, resolution="raw", metric=metric, limit=50)
        got = [(row["timestamp"], row["value"]) for row in found]
        wanted = source.values(metric, lambda row, uuid=uuid: row["uuid"] == uuid)  # type: ignore[misc]
        assert [at for at, _ in got] == [at for at, _ in wanted]
        assert [value for _, value in got] == pytest.approx([value for _, value in wanted])


@pytest.mark.parametrize(("resolution", "seconds"), [("30s", 30), ("1m", 60), ("5m", 300)])
def test_steps_of_a_gpu(client: Client, source: Source, resolution: str, seconds: int) -> None:
    uuid = source.uuids[0]
    found = every(
        client, f"/api/v1/gpus/{uuid}/telemetry", **SPAN, resolution=resolution, metric="power"
    )
    steps: dict[tuple[int, str], list[float]] = defaultdict(list)
    for at, value in source.values("power", lambda row: row["uuid"] == uuid):
        second = int(datetime.fromisoformat(at).timestamp())
        pod = next(r["pod"] for r in source.rows if (r["uuid"], r["timestamp"]) == (uuid, at))
        steps[(second // seconds * seconds, pod)].append(value)
    assert len(found) == len(steps) > 2
    for row in found:
        start = int(datetime.fromisoformat(row["timestamp"]).timestamp())
        values = steps[(start, row["pod"])]
        assert (row["min"], row["max"]) == (min(values), max(values))
        assert (row["last"], row["count"]) == (values[-1], len(values))
        assert row["mean"] == row["value"] == pytest.approx(sum(values) / len(values))


def test_a_summary_by_namespace(client: Client, source: Source) -> None:
    found = every(
        client, "/api/v1/telemetry/summary", **SPAN, by="namespace", metric="power,gpu_util"
    )
    names = {row["namespace"] for row in source.rows}
    assert {(row["namespace"], row["metric"]) for row in found} == {
        (name, metric) for name in names for metric in ("power", "gpu_util")
    }
    for row in found:
        name = row["namespace"]
        values = [
            value
            for _, value in source.values(
                row["metric"],
                lambda said, name=name: said["namespace"] == name,  # type: ignore[misc]
            )
        ]
        assert row["count"] == len(values)
        assert row["exact"]
        assert row["mean"] == pytest.approx(sum(values) / len(values))
        got = [row[name] for name in ("min", "max", "p50", "p95", "p99")]
        ranks = [rank(values, percent) for percent in (50, 95, 99)]
        assert got == pytest.approx([min(values), max(values), *ranks])


def test_gpus_and_their_states(client: Client, source: Source) -> None:
    found = {row["uuid"]: row for row in every(client, "/api/v1/gpus", limit=3)}
    assert sorted(found) == source.uuids
    end = max(row["timestamp"] for row in source.rows)
    for uuid, gpu in found.items():
        rows = [row for row in source.rows if row["uuid"] == uuid]
        newest = max(rows, key=lambda row: row["timestamp"])
        assert gpu["hostname"] == newest["Hostname"]
        assert (gpu["gpu"], gpu["model"]) == (newest["gpu_id"], newest["modelName"])
        assert (gpu["namespace"], gpu["pod"]) == (newest["namespace"], newest["pod"])
        assert gpu["last_seen"] == newest["timestamp"]
        assert gpu["first_seen"] == min(row["timestamp"] for row in rows)
        assert gpu["state"] == _state(source, uuid, newest, end)


def _state(source: Source, uuid: str, newest: Row, end: str) -> str:
    silent = datetime.fromisoformat(end) - datetime.fromisoformat(newest["timestamp"])
    if silent.total_seconds() > 120:
        return "unknown"
    last = source.last(uuid)
    if last["engine_active"] >= 0.05:
        return "active"
    return "idle-held" if newest["pod"] or last["memory_used"] > 500 << 20 else "free"


def test_a_cluster_adds_up(client: Client, source: Source) -> None:
    (cluster,) = client.json("/api/v1/clusters")["data"]
    gpus = {row["uuid"]: row["state"] for row in every(client, "/api/v1/gpus")}
    states = list(gpus.values())
    assert cluster["gpus"] == len(gpus)
    assert cluster["hosts"] == len({row["Hostname"] for row in source.rows})
    assert (cluster["active"], cluster["idle_held"], cluster["free"], cluster["unknown"]) == tuple(
        states.count(state) for state in ("active", "idle-held", "free", "unknown")
    )
    known = [uuid for uuid, state in gpus.items() if state != "unknown"]
    watts = sum(source.last(uuid)["power"] for uuid in known)
    assert cluster["power_w"] == pytest.approx(watts)
