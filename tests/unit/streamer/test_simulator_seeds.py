"""The same seed gives the same bytes, however they are made."""

from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pytest

from nexus.streamer.simulator import FAULT_KINDS, Simulation, SimulatorConfig, SimulatorError
from nexus.streamer.simulator.config import parse_faults
from nexus.streamer.simulator.fleet import Fleet
from nexus.streamer.simulator.randomness import Draws, mix, mix_column
from nexus.streamer.simulator.render import Renderer
from support.simulated import csv_of

SMALL = SimulatorConfig(hosts=2, gpus=3, seed=7, interval_ms=10_000, fault_period_ms=120_000)


def test_a_seed_gives_the_same_bytes_on_any_machine_and_python() -> None:
    digest = sha256(csv_of(SMALL, 60)).hexdigest()
    assert digest == "7a4fde6500d8b10f2f2fa6bb03190ec28cf974c6c62f8778e4c604d972782bd5"


def test_another_seed_gives_other_gpus_and_values() -> None:
    assert csv_of(SMALL, 3) != csv_of(replace(SMALL, seed=8), 3)


@pytest.mark.parametrize("step", [1, 7, 60])
def test_how_ticks_are_cut_into_blocks_changes_nothing(step: int) -> None:
    simulation = Simulation(SMALL)
    renderer = Renderer(simulation)
    made = b""
    while simulation.tick < 60:
        span = simulation.advance(min(step, 60 - simulation.tick))
        made += b"".join(bytes(piece) for _, piece in renderer.csv(span))
    assert made == csv_of(SMALL, 60).split(b"\n", 1)[1]


def test_a_simulation_can_go_on_at_any_tick() -> None:
    whole, resumed = Simulation(SMALL), Simulation(SMALL)
    whole.advance(41)
    resumed.skip_to(41)
    assert Renderer(whole).table(whole.advance(9)) == Renderer(resumed).table(resumed.advance(9))


def test_a_larger_fleet_begins_with_the_same_machines() -> None:
    few, many = Fleet(SMALL), Fleet(replace(SMALL, hosts=5))
    assert many.gpus[: len(few.gpus)] == few.gpus
    assert len({gpu.uuid for gpu in many.gpus}) == 15


def test_a_column_is_hashed_like_a_number() -> None:
    inputs = [0, 1, 2**63, 2**64 - 1]
    hashed = mix_column(pa.array(inputs, pa.uint64())).to_pylist()
    golden = 0x9E3779B97F4A7C15
    assert hashed == [mix((value - golden) % 2**64) for value in inputs]


def test_draws_stay_in_their_range_and_reach_its_ends() -> None:
    draws = Draws(3)
    assert {draws.between(2, 4) for _ in range(100)} == {2, 3, 4}
    assert sorted(draws.shuffled(range(9))) == list(range(9))


def test_faults_are_named_in_any_order_and_unknown_ones_refused() -> None:
    assert parse_faults("ecc, xid") == parse_faults("xid,ecc") == ("xid", "ecc")
    assert parse_faults("none") == ()
    assert parse_faults("all") == FAULT_KINDS
    with pytest.raises(SimulatorError, match="unknown fault 'fire'"):
        SimulatorConfig(faults=parse_faults("xid,fire"))


@pytest.mark.parametrize("wrong", [{"hosts": 0}, {"gpus": 17}, {"interval_ms": 0}, {"seed": -1}])
def test_a_fleet_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SimulatorError, match="expected"):
        replace(SMALL, **wrong)  # type: ignore[arg-type]
