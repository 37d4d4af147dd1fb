"""Where partitions go: evenly, apart, and with few moves when brokers come and go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.cluster.assignment.dynamic import Dynamic, carried_by, rebalanced
from nexus.cluster.assignment.modulo import Modulo
from nexus.cluster.assignment.moves import assigned, plan
from nexus.cluster.assignment.port import Assignment, Node, Strategy, Wanted
from nexus.cluster.assignment.ring import RingStrategy
from nexus.cluster.errors import NotEnoughBrokers

TOPICS = [Wanted(f"topic-{n}", (1, 3, 6, 12, 24)[n % 5], 1) for n in range(300)]
STRATEGIES = [Modulo(), RingStrategy(), Dynamic({}, {})]


def nodes(count: int, racks: int = 0) -> list[Node]:
    return [Node(n, f"rack-{n % racks}" if racks else "") for n in range(count)]


def moved(strategy: Strategy, before: int, after: int) -> float:
    """The share of leaders that move."""
    found = plan(
        assigned(strategy, TOPICS, nodes(before)), assigned(strategy, TOPICS, nodes(after))
    )
    return found.leaders_moved / found.partitions


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
@given(
    partitions=st.integers(1, 40),
    replication=st.integers(1, 4),
    brokers=st.integers(4, 9),
    racks=st.integers(0, 4),
)
def test_replicas_are_on_distinct_brokers_and_racks(
    strategy: Strategy, partitions: int, replication: int, brokers: int, racks: int
) -> None:
    there = nodes(brokers, racks)
    rack_of = {node.id: node.rack for node in there}
    found = strategy.assign(Wanted("t", partitions, replication), there)
    assert len(found) == partitions
    for replicas in found:
        assert len(set(replicas)) == replication
        if racks:
            assert len({rack_of[node] for node in replicas}) == min(replication, racks, brokers)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_more_replicas_than_brokers_are_refused(strategy: Strategy) -> None:
    with pytest.raises(NotEnoughBrokers, match="3 replicas"):
        strategy.assign(Wanted("t", 2, 3), nodes(2))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_a_topic_is_spread_evenly(strategy: Strategy) -> None:
    for partitions in (3, 12, 60):
        leads = Counter(
            replicas[0] for replicas in strategy.assign(Wanted("t", partitions, 2), nodes(3))
        )
        assert max(leads.values()) <= partitions / 3 * 1.1 + 1


def test_the_ring_moves_about_one_share_when_a_broker_is_added() -> None:
    assert 1 / 4 * 0.8 < moved(RingStrategy(), 3, 4) < 1 / 4 * 1.3
    assert 1 / 10 * 0.8 < moved(RingStrategy(), 9, 10) < 1 / 10 * 1.8


def test_modulo_moves_three_quarters_from_three_to_four() -> None:
    assert 0.7 < moved(Modulo(), 3, 4) < 0.8


def test_a_broker_that_goes_moves_little_besides_its_own() -> None:
    there = nodes(5)
    before = assigned(RingStrategy(slack=float("inf")), TOPICS, there)
    after = assigned(RingStrategy(slack=float("inf")), TOPICS, there[:4])
    for change in plan(before, after).changes:
        assert change.before == (4,)


def test_the_order_of_the_brokers_says_nothing() -> None:
    wanted = Wanted("t", 12, 2)
    for strategy in (Modulo(), RingStrategy()):
        assert strategy.assign(wanted, nodes(4)) == strategy.assign(wanted, nodes(4)[::-1])


def test_a_new_topic_goes_where_there_is_least_to_do() -> None:
    busy: Assignment = {"busy": ((0,), (0,), (1,))}
    loads = {("busy", 0): 10.0, ("busy", 1): 10.0, ("busy", 2): 10.0}
    found = Dynamic(busy, loads).assign(Wanted("new", 3), nodes(3))
    assert Counter(replicas[0] for replicas in found) == {2: 2, 1: 1}


def test_uneven_load_is_evened_out_by_few_moves() -> None:
    current: Assignment = {"t": ((0, 1), (0, 1), (0, 1), (0, 1), (0, 2), (0, 2))}
    loads = {("t", n): float(load) for n, load in enumerate((5, 5, 5, 5, 1, 1))}
    moves = rebalanced(current, loads, nodes(3))
    after = {"t": [list(replicas) for replicas in current["t"]]}
    for move in moves:
        replicas = after["t"][move.partition]
        replicas[replicas.index(move.source)] = move.target
    assert all(len(set(replicas)) == 2 for replicas in after["t"])
    shares = carried_by({"t": tuple(map(tuple, after["t"]))}, loads, nodes(3))
    assert max(shares.values()) - min(shares.values()) <= 5
    assert len(moves) <= 3


def test_what_is_even_is_left_alone() -> None:
    current: Assignment = {"t": ((0,), (1,), (2,))}
    assert rebalanced(current, {}, nodes(3)) == []


def test_a_move_keeps_replicas_on_their_racks() -> None:
    there = [Node(0, "a"), Node(1, "b"), Node(2, "b")]
    current: Assignment = {"t": ((0, 1), (0, 1), (0, 1))}
    for move in rebalanced(current, {}, there):
        assert (move.source, move.target) == (1, 2)
