"""How a partition's state may change: who may lead, and what is never given up."""

from __future__ import annotations

from dataclasses import replace

from nexus.cluster.controlling import Seen, needed, offline, preferred
from nexus.cluster.partition_state import (
    NOBODY,
    PartitionState,
    elected,
    first_state,
    handed_over,
    moved,
    moving,
    restarted,
)

STATE = PartitionState((1, 2, 3), 1, 5, (1, 2, 3), version=9)


def test_a_new_partition_is_led_by_its_first_live_replica() -> None:
    assert first_state((1, 2, 3), {2, 3}) == PartitionState((1, 2, 3), 2, 0, (2, 3))
    assert first_state((1, 2), ()) == PartitionState((1, 2), NOBODY, 0, (1, 2))


def test_the_next_leader_is_in_sync_and_begins_an_epoch() -> None:
    behind = replace(STATE, in_sync=(1, 3))
    assert elected(behind, {2, 3}) == replace(behind, leader=3, epoch=6, in_sync=(3,))


def test_a_dead_follower_holds_up_nothing() -> None:
    assert elected(STATE, {1, 3}) == replace(STATE, in_sync=(1, 3))
    assert elected(STATE, {1, 2, 3}) is STATE


def test_without_a_replica_in_sync_nobody_leads_and_nothing_is_forgotten() -> None:
    alone = replace(STATE, in_sync=(1,))
    gone = elected(alone, {2, 3})
    assert gone == replace(alone, leader=NOBODY, epoch=6)
    assert elected(gone, {2, 3}) is gone
    assert elected(gone, {1, 2}) == replace(alone, leader=1, epoch=7)


def test_an_unclean_leader_is_elected_only_when_that_is_asked_for() -> None:
    alone = replace(STATE, in_sync=(1,))
    assert elected(alone, {3}, unclean=True) == replace(alone, leader=3, epoch=6, in_sync=(3,))


def test_a_leadership_ends_with_its_process() -> None:
    assert restarted(STATE, 1, kept_all=True) == replace(STATE, leader=NOBODY, epoch=6)
    assert restarted(STATE, 2, kept_all=True) is STATE


def test_who_may_have_lost_records_leaves_the_in_sync_set_unless_it_is_the_last() -> None:
    assert restarted(STATE, 2, kept_all=False).in_sync == (1, 3)
    alone = replace(STATE, in_sync=(1,))
    assert restarted(alone, 1, kept_all=False).in_sync == (1,)


def test_leadership_goes_back_to_the_first_replica_and_away_from_one_that_leaves() -> None:
    second = replace(STATE, leader=2)
    assert handed_over(second, {1, 2, 3}) == replace(STATE, epoch=6)
    assert handed_over(STATE, {1, 2, 3}, leaving={1}) == replace(STATE, leader=2, epoch=6)
    assert handed_over(STATE, {1, 2, 3}) is STATE
    last = replace(STATE, in_sync=(1,))
    assert handed_over(last, {1, 2, 3}, leaving={1}) is last


def test_a_move_ends_only_when_all_new_replicas_are_in_sync() -> None:
    state = moving(STATE, (3, 4))
    assert state == replace(STATE, replicas=(1, 2, 3, 4), target=(3, 4))
    live = {1, 2, 3, 4}
    assert moved(state, live) is state
    joined = replace(state, in_sync=(1, 2, 3, 4))
    assert moved(joined, live) == PartitionState((3, 4), 3, 6, (3, 4), (), 9)
    assert moving(state, state.replicas).target == ()


def test_the_controller_names_what_changes_and_nothing_else() -> None:
    other = PartitionState((2, 3), 2, 0, (2, 3))
    seen = Seen({2, 3}, {("t", 0): STATE, ("t", 1): other})
    assert needed(seen) == {("t", 0): replace(STATE, leader=2, epoch=6, in_sync=(2, 3))}
    led = Seen({1, 2, 3}, {("t", 0): replace(STATE, leader=2), ("t", 1): other})
    assert preferred(led) == {("t", 0): replace(STATE, epoch=6)}
    assert offline(Seen((), {("t", 0): replace(STATE, leader=NOBODY)})) == [("t", 0)]
