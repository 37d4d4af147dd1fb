"""What the benchmark of the pipeline reads from tables, and how it fills one beforehand."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from nexus.lake.fence import Fence
from nexus.lake.files import NewFile
from nexus.lake.table import LakeTable
from nexus.lake.url import parse_store_url
from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.render import Renderer
from nexus.telemetry.normalise import normalise
from nexus.telemetry.tables import TABLES

_TICKS = 800
_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Commit:
    """One commit of a table: when it was made, and the rows that it brought."""

    at: float
    rows: int


def commits_of(table: Path) -> list[Commit]:
    """The commits that brought rows, in order."""
    found = []
    for path in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        adds = [a["add"] for a in actions if "add" in a and a["add"]["dataChange"]]
        rows = sum(json.loads(add["stats"])["numRecords"] for add in adds)
        if rows:
            at = next(a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a)
            found.append(Commit(at / 1000, rows))
    return found


def medians(commits: Sequence[Commit], skip: int) -> float:
    """Seconds from commit to commit for a million rows, the median."""
    pairs = zip(commits[skip - 1 :], commits[skip:], strict=False)
    return statistics.median((b.at - a.at) / b.rows * 1e6 for a, b in pairs)


def freshness_s(table: Path, since_s: float, until_s: float) -> str:
    """How old readings of that time are when their commit makes them visible: "p50 / p95"."""
    ages = duckdb.connect()
    ages.execute("CREATE TABLE ages (age DOUBLE)")
    for path in sorted((table / "_delta_log").glob("*.json")):
        if path.stat().st_mtime < since_s:
            continue
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        adds = [a["add"]["path"] for a in actions if "add" in a and a["add"]["dataChange"]]
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        for add in adds:
            ages.execute(
                "INSERT INTO ages SELECT epoch(? - ingested) FROM read_parquet(?)"
                " WHERE ingested BETWEEN to_timestamp(?) AND to_timestamp(?)",
                [at, str(table / add.replace("%3D", "=")), since_s, until_s],
            )
    query = "SELECT quantile_cont(age, 0.5), quantile_cont(age, 0.95) FROM ages"
    found = ages.execute(query).fetchone()
    assert found is not None
    return f"{found[0]:.2f} / {found[1]:.2f}"


def fill_table(store: str, rows: int) -> None:
    """So many readings of earlier days, as a compacted table would hold them."""
    table = LakeTable.open(parse_store_url(store), TABLES["readings"])
    simulation = Simulation(SimulatorConfig(hosts=16, gpus=8, seed=1, interval_ms=1000))
    renderer = Renderer(simulation, lambda *_: True)
    made = renderer.table(simulation.advance(_TICKS))
    made = made.append_column("ingested", made.column("timestamp"))
    readings = normalise(made)
    files: list[NewFile] = []
    for number in range(-(-rows // readings.num_rows)):
        moved = _moved(readings, number)
        day = str(pc.cast(pc.min(moved.column("timestamp")), pa.date32()))
        with table.files_of.writer({"day": day}) as writer:
            writer.write(moved)
        assert writer.file is not None
        files.append(writer.file)
    table.append(files, "bench", 0, Fence(0, "bench"))


def _moved(readings: pa.Table, number: int) -> pa.Table:
    """The same readings so many times 800 s earlier, a hundred times a day."""
    first = pc.min(readings.column("timestamp")).cast(pa.int64()).as_py()
    midnight = first // _DAY_US * _DAY_US - (1 + number // 100) * _DAY_US
    shift = pa.scalar(first - midnight - number % 100 * _TICKS * 1_000_000, pa.duration("us"))
    for name in ("timestamp", "ingested"):
        at = readings.schema.get_field_index(name)
        moved = pc.subtract(readings.column(name), shift)
        readings = readings.set_column(at, readings.schema.field(name), moved)
    return readings
