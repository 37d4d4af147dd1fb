"""What the truth says can be found in the readings."""

import itertools
import json
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest

from nexus.streamer.simulator import FAULT_KINDS, Simulation, SimulatorConfig
from nexus.streamer.simulator.truth import STATES, Truth
from support.simulated import CONFIG, TICKS, faults_of, made_fleet, made_readings, series

RESERVE_BYTES = 500 * 1024 * 1024


def state_of(cell: dict[str, float] | None) -> str:
    """By the rules for readers: busy is the engine's share, else the utilisation."""
    if cell is None:
        return "unknown"
    busy = cell.get("engine_active", cell["gpu_util"])
    if busy >= 0.05:
        return "active"
    held = cell["pod"] or cell["memory_used"] > RESERVE_BYTES
    return "idle-held" if held else "free"


def ticks(interval: dict[str, Any]) -> list[str]:
    start, end = (datetime.fromisoformat(interval[name]) for name in ("start", "end"))
    count = (end - start) // timedelta(milliseconds=CONFIG.interval_ms)
    step = timedelta(milliseconds=CONFIG.interval_ms)
    return [f"{start + at * step:%Y-%m-%dT%H:%M:%SZ}" for at in range(count)]


def test_states_recomputed_from_readings_are_the_true_ones() -> None:
    seen: dict[str, int] = defaultdict(int)
    for gpu in made_fleet().truth["gpus"]:
        for interval in gpu["states"]:
            for time in ticks(interval):
                assert state_of(made_readings().get((gpu["uuid"], time))) == interval["state"]
                seen[interval["state"]] += 1
    assert sum(seen.values()) == TICKS * len(made_fleet().truth["gpus"])
    assert set(seen) == set(STATES)


def test_intervals_follow_each_other_without_a_gap() -> None:
    document = made_fleet().truth
    for gpu in document["gpus"]:
        bounds = [(interval["start"], interval["end"]) for interval in gpu["states"]]
        assert bounds[0][0] == document["start"]
        assert bounds[-1][1] == document["end"]
        assert all(a[1] == b[0] for a, b in itertools.pairwise(bounds))


def test_a_pod_is_on_a_gpu_s_readings_exactly_while_it_holds_it() -> None:
    for gpu in made_fleet().truth["gpus"]:
        held = {time for pod in gpu["pods"] for time in ticks(pod)}
        for (uuid, time), cell in made_readings().items():
            if uuid == gpu["uuid"]:
                assert bool(cell["pod"]) == (time in held)


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_every_kind_of_fault_appears(kind: str) -> None:
    assert faults_of(kind)


def test_an_xid_burst_is_in_the_readings() -> None:
    [fault] = faults_of("xid")
    codes = series(fault["uuid"], "xid", fault["start"], fault["end"])
    assert codes
    assert set(codes) <= set(fault["detail"]["xids"])
    assert series(fault["uuid"], "xid", "", fault["start"])[-1] not in codes


def test_memory_errors_are_counted() -> None:
    [fault] = faults_of("ecc")
    before, during = "", fault["start"]
    assert max(series(fault["uuid"], "ecc_uncorrectable", before, during)) == 0
    assert max(series(fault["uuid"], "ecc_uncorrectable", fault["end"])) == 1
    assert max(series(fault["uuid"], "ecc_correctable")) == fault["detail"]["corrected"]
    assert max(series(fault["uuid"], "remapped_rows_uncorrectable")) == 1


def test_replays_are_counted() -> None:
    [fault] = faults_of("replays")
    assert max(series(fault["uuid"], "pcie_replays")) == fault["detail"]["count"]


def test_an_upgrade_changes_names_and_units_for_good() -> None:
    [fault, *_] = faults_of("upgrade")
    table = made_fleet().table.select(["timestamp", "source_metric", "hostname", "unit"])
    start = datetime.fromisoformat(fault["start"])
    names: dict[bool, set[tuple[str, str]]] = defaultdict(set)
    for row in table.to_pylist():
        if row["hostname"] == fault["hostname"]:
            names[row["timestamp"] >= start].add((row["source_metric"], row["unit"]))
    assert ("DCGM_FI_DEV_GPU_UTIL", "percent") in names[False]
    assert ("DCGM_FI_DEV_GPU_UTIL_RATIO", "ratio") in names[True]
    assert ("DCGM_FI_DEV_SM_CLOCK_HERTZ", "Hz") in names[True]
    assert ("DCGM_FI_DEV_GPU_UTIL", "percent") not in names[True]


def test_a_pause_of_profiling_gives_blanks_not_zeros() -> None:
    [fault] = faults_of("blank")
    host = [g for g in made_fleet().truth["gpus"] if g["hostname"] == fault["hostname"]]
    uuid = host[0]["uuid"]
    assert series(uuid, "engine_active", fault["start"], fault["end"]) == []
    assert series(uuid, "gpu_util", fault["start"], fault["end"])


def test_without_faults_there_are_none() -> None:
    simulation = Simulation(SimulatorConfig(hosts=2, gpus=2, faults=()))
    truth = Truth(simulation)
    truth.add(simulation.advance(100))
    assert truth.document()["faults"] == []


def test_the_text_is_the_document() -> None:
    simulation = Simulation(SimulatorConfig(hosts=1, gpus=2))
    truth = Truth(simulation)
    truth.add(simulation.advance(3))
    assert json.loads(truth.text()) == truth.document()
