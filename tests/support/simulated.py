"""Simulated fleets for tests: made once, and looked at GPU by GPU."""

import io
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.files import write_csv
from nexus.streamer.simulator.metrics import BLANK
from nexus.streamer.simulator.render import Renderer
from nexus.streamer.simulator.truth import Truth
from nexus.telemetry.catalogue import meaning_of

CONFIG = SimulatorConfig(hosts=4, gpus=8, seed=1, interval_ms=10_000)
TICKS = 66  # eleven minutes: every kind of fault has begun


Readings = dict[tuple[str, str], dict[str, float]]


@dataclass(frozen=True)
class Made:
    """A fleet's readings, and the truth about it."""

    simulation: Simulation
    table: pa.Table
    truth: dict[str, Any]


@cache
def made_fleet() -> Made:
    simulation = Simulation(CONFIG)
    renderer, truth = Renderer(simulation), Truth(simulation)
    tables = []
    while simulation.tick < TICKS:
        span = simulation.advance(min(50, TICKS - simulation.tick))
        truth.add(span)
        tables.append(renderer.table(span))
    return Made(simulation, pa.concat_tables(tables), truth.document())


@cache
def made_readings() -> Readings:
    """(uuid, time) to canonical metric to value in its canonical unit; whether a pod is set
    under "pod". Blanks are left out."""
    table = made_fleet().table
    found: Readings = {}
    names = ("timestamp", "source_metric", "unit", "uuid", "pod", "source_value")
    for time, name, unit, uuid, pod, value in zip(
        *(table[column].to_pylist() for column in names), strict=True
    ):
        cell = found.setdefault((uuid, f"{time:%Y-%m-%dT%H:%M:%SZ}"), {})
        meaning = meaning_of(name, unit)
        if value < BLANK:
            cell[meaning.metric] = value * meaning.multiply / meaning.divide
        cell["pod"] = float(bool(pod))
    return found


def series(uuid: str, metric: str, start: str = "", end: str = "9") -> list[float]:
    """One GPU's values in order of time."""
    return [
        cell[metric]
        for (of, time), cell in made_readings().items()
        if of == uuid and start <= time < end and metric in cell
    ]


def faults_of(kind: str) -> list[dict[str, Any]]:
    return [fault for fault in made_fleet().truth["faults"] if fault["kind"] == kind]


def csv_of(config: SimulatorConfig, ticks: int) -> bytes:
    sink = io.BytesIO()
    write_csv(Simulation(config), ticks, sink)
    return sink.getvalue()
