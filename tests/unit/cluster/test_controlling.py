"""What the controller makes of processes that came and went."""

from __future__ import annotations

from nexus.cluster.controlling import Seen, needed
from nexus.cluster.partition_state import NOBODY, PartitionState

KEY = ("t", 0)


def changed(state: PartitionState, **seen: object) -> PartitionState | None:
    return needed(Seen(partitions={KEY: state}, **seen)).get(KEY)  # type: ignore[arg-type]


def test_a_leader_whose_process_ended_unseen_gets_a_new_epoch() -> None:
    state = PartitionState((1, 2), 1, 4, (1, 2), version=10)
    found = changed(state, live={1, 2}, registered={1: 12, 2: 3})
    assert found is not None
    assert found.leader == 1
    assert found.epoch > 4
    assert found.version == 10


def test_a_leader_that_was_elected_after_it_registered_stays() -> None:
    state = PartitionState((1, 2), 1, 4, (1, 2), version=10)
    assert changed(state, live={1, 2}, registered={1: 9, 2: 3}) is None


def test_a_follower_that_came_back_with_all_it_had_stays_in_sync() -> None:
    state = PartitionState((1, 2), 1, 4, (1, 2), version=10)
    assert changed(state, live={1, 2}, registered={1: 9, 2: 11}) is None


def test_a_follower_that_may_have_lost_something_leaves_the_in_sync_set() -> None:
    state = PartitionState((1, 2), 1, 4, (1, 2), version=10)
    found = changed(state, live={1, 2}, registered={1: 9, 2: 11}, unsure={2})
    assert found is not None
    assert found.in_sync == (1,)
    assert found.epoch == 4


def test_a_leader_that_may_have_lost_something_is_followed_by_one_that_has_not() -> None:
    state = PartitionState((1, 2), 1, 4, (1, 2), version=10)
    found = changed(state, live={1, 2}, registered={1: 12, 2: 3}, unsure={1})
    assert found is not None
    assert (found.leader, found.in_sync) == (2, (2,))


def test_nobody_leads_while_all_who_have_everything_are_away() -> None:
    state = PartitionState((1, 2), 1, 4, (1,), version=10)
    found = changed(state, live={2}, registered={2: 3})
    assert found is not None
    assert (found.leader, found.in_sync) == (NOBODY, (1,))
