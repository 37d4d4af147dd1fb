"""The cluster's promises under seeded drops, delays, pauses, crashes and power cuts.

A failing seed fails again: `Sim(seed)`. The controls break one decision each, and must be found.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nexus.cluster import controlling, leading
from nexus.cluster.following import Epochs, Following
from nexus.cluster.leading import Leading
from nexus.cluster.partition_state import PartitionState, elected, stepped_aside
from support.cluster_sim import Sim
from support.cluster_sim_broker import Broken

SEEDS = 500
CHUNK = 25
FAULTY_S, CALM_S = 20, 15


def life(seed: int) -> Sim:
    """A while of faults, then time to recover."""
    sim = Sim(seed)
    sim.cause_faults()
    sim.run(FAULTY_S)
    before = sum(client.acked for client in sim.clients)
    sim.heal()
    sim.run(CALM_S)
    if sum(client.acked for client in sim.clients) <= before:
        raise Broken(f"nothing is acknowledged any more: {sim.state}")
    sim.quiet = True
    sim.run(CALM_S)
    for broker in sim.brokers:
        sim.watch.keeps_acknowledged(broker, max(sim.watch.leaders) + 1)
        if broker.log != sim.brokers[0].log:
            raise Broken(f"brokers 0 and {broker.node} differ when all is calm")
    return sim


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_promise_is_broken_whatever_fails(first: int) -> None:
    acknowledged = elections = 0
    for seed in range(first, first + CHUNK):
        try:
            sim = life(seed)
        except Broken as error:
            pytest.fail(f"seed {seed}: {error}")
        acknowledged += len(sim.watch.acked)
        elections += len(sim.watch.leaders)
    # Otherwise nothing was put at risk.
    assert acknowledged > CHUNK * 20
    assert elections > CHUNK * 2


def test_a_seed_is_always_the_same_life() -> None:
    assert life(7).watch == life(7).watch


def _found(seeds: range) -> Iterator[str]:
    for seed in seeds:
        try:
            life(seed)
        except (Broken, IndexError) as error:
            yield f"{seed}: {error}"


def test_a_leader_that_lacks_records_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_live(state: PartitionState, live: set[int], *, unclean: bool) -> PartitionState:
        return elected(state, live, unclean=True)

    monkeypatch.setattr(controlling, "elected", any_live)
    assert next(_found(range(40)), None)


def test_a_follower_that_does_not_cut_its_log_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_all(self: Following, epochs: Epochs, end: int, epoch: int, offset: int) -> int | None:
        self.is_aligned = True
        return None

    monkeypatch.setattr(Following, "epoch_ends", keep_all)
    assert next(_found(range(40)), None)


def test_leaving_out_a_follower_before_it_is_agreed_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def proposed_alone(self: Leading) -> set[int]:
        state = self.proposal or self.state
        return set(state.in_sync) - {self.me}

    monkeypatch.setattr(Leading, "_needed", proposed_alone)
    assert next(_found(range(60)), None)


def test_a_follower_that_is_taken_in_too_early_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leading, "_belongs", lambda *_: True)
    assert next(_found(range(40)), None)


def test_a_new_leader_that_shows_its_old_watermark_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leading, "is_settled", True)
    assert next(_found(range(40)), None)


def test_a_leader_that_makes_way_for_anyone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def for_anyone(state: PartitionState, _: set[int]) -> PartitionState:
        others = [node for node in state.replicas if node != state.leader]
        lacking = [node for node in others if node not in state.in_sync]
        return stepped_aside(state, lacking or others)

    monkeypatch.setattr(leading, "stepped_aside", for_anyone)
    assert next(_found(range(200)), None)


def test_a_process_that_goes_on_with_its_predecessors_epoch_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sim, "_leads_on", lambda *_: True)
    monkeypatch.setattr(controlling, "_restarted", lambda state, _: state)
    assert next(_found(range(40)), None)
