"""What the controller makes of processes that came and went."""

from __future__ import annotations

from nexus.cluster.controlling import Seen, needed, rebuilt
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


def test_what_a_lost_broker_held_is_made_anew_where_least_is_held_a_few_at_a_time() -> None:
    states = {
        ("t", number): PartitionState((1, 2), 1, 0, (1,), version=1) for number in range(5)
    } | {("u", 0): PartitionState((1, 3), 1, 0, (1, 3), version=1)}
    seen = Seen(live={1, 3, 4}, partitions=states)
    found = rebuilt(seen, gone={2}, at_once=2)
    assert {key: state.target for key, state in found.items()} == {
        ("t", 0): (1, 4),
        ("t", 1): (1, 3),
    }
    under_way = Seen(live={1, 3, 4}, partitions=states | found)
    assert rebuilt(under_way, gone={2}, at_once=2) == {}


def test_a_lost_broker_that_nobody_can_replace_is_waited_for() -> None:
    seen = Seen(live={1}, partitions={KEY: PartitionState((1, 2), 1, 0, (1,), version=1)})
    assert rebuilt(seen, gone={2}, at_once=2) == {}
