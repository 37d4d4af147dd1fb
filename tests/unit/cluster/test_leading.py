"""What a leader holds of its followers, and whom it wants in the in-sync set."""

from __future__ import annotations

from dataclasses import replace

from nexus.cluster.leading import Leading, Rules
from nexus.cluster.partition_state import PartitionState

STATE = PartitionState((1, 2, 3), 1, 5, (1, 2, 3), version=10)
ALL = {1: 0, 2: 0, 3: 0}


def leader(state: PartitionState = STATE, least: int = 1) -> Leading:
    """Broker 1 leads with a log of 100 that both followers have, at time 0."""
    rules = Rules(lag_s=10.0, min_in_sync=least)
    leading = Leading(1, state, rules, end=100, flushed=100, high_watermark=100, began_at=0.0)
    for node in (2, 3):
        leading.fetched(node, state.epoch, 100, 0.0)
    return leading


def test_nothing_is_proposed_while_all_are_in_sync() -> None:
    assert leader().propose(1.0, ALL) is None


def test_the_dead_are_left_out_at_once() -> None:
    proposal = leader().propose(1.0, {1: 0, 2: 0})
    assert proposal is not None
    assert proposal.in_sync == (1, 2)


def test_one_that_was_left_out_comes_back_only_by_what_it_tells_then() -> None:
    leading = leader()
    leading.agreed(replace(STATE, in_sync=(1, 2), version=11))
    assert leading.propose(1.0, ALL) is None  # it told of all, but before it was left out
    leading.fetched(3, STATE.epoch, 100, 2.0)
    proposal = leading.propose(2.0, ALL)
    assert proposal is not None
    assert proposal.in_sync == (1, 2, 3)


def test_the_dead_do_not_come_back_by_what_still_arrives_from_them() -> None:
    leading = leader()
    leading.agreed(replace(STATE, in_sync=(1, 2), version=11))
    leading.fetched(3, STATE.epoch, 100, 2.0)
    assert leading.propose(2.0, {1: 0, 2: 0}) is None


def test_one_that_may_have_lost_something_is_left_out_until_a_newer_state_counts_on_it() -> None:
    leading = leader()
    back = {1: 0, 2: 0, 3: 12}  # admitted again at version 12, later than the state
    proposal = leading.propose(1.0, back)
    assert proposal is not None
    assert proposal.in_sync == (1, 2)
    leading.agreed(replace(proposal, version=13))
    leading.fetched(3, STATE.epoch, 100, 2.0)
    again = leading.propose(2.0, back)
    assert again is not None
    assert again.in_sync == (1, 2, 3)


def test_the_watermark_waits_for_those_about_to_join() -> None:
    leading = leader(replace(STATE, in_sync=(1, 2)))
    assert leading.propose(1.0, ALL) is not None
    leading.appended(110)
    leading.was_flushed(110)
    assert not leading.fetched(2, STATE.epoch, 110, 1.0)
    assert leading.fetched(3, STATE.epoch, 110, 1.0)
    assert leading.high_watermark == 110


def test_a_leader_whom_nobody_reaches_makes_way_for_those_who_live() -> None:
    proposal = leader(least=2).propose(11.0, ALL)
    assert proposal == replace(STATE, leader=2, epoch=6, in_sync=(2, 3))


def test_it_makes_way_for_one_that_has_everything_if_another_can_join_that_one() -> None:
    two = replace(STATE, in_sync=(1, 3))
    proposal = leader(two, least=2).propose(11.0, ALL)
    assert proposal == replace(two, leader=3, epoch=6, in_sync=(3,))


def test_a_leader_that_hears_one_of_them_leads_on() -> None:
    leading = leader(least=2)
    leading.appended(2000)
    leading.fetched(3, STATE.epoch, 100, 10.0)  # far behind, but there
    assert leading.propose(11.0, ALL) == replace(STATE, in_sync=(1,))


def test_a_leader_that_a_single_follower_does_not_reach_leads_on() -> None:
    assert leader(least=2).propose(11.0, {1: 0, 2: 0}) == replace(STATE, in_sync=(1,))


def test_a_leader_that_may_write_alone_leads_on() -> None:
    assert leader(least=1).propose(11.0, ALL) == replace(STATE, in_sync=(1,))


def test_it_makes_way_for_nobody_who_may_have_lost_something() -> None:
    proposal = leader(least=2).propose(11.0, {1: 0, 2: 12, 3: 0})
    assert proposal == replace(STATE, leader=3, epoch=6, in_sync=(3,))
