"""A plan by measured load: what is skewed is evened out, what is noise moves nothing."""

from __future__ import annotations

import random
from typing import cast
from uuid import uuid4

import pytest

from nexus.cluster.assignment.dynamic import carried_by
from nexus.cluster.assignment.port import Node
from nexus.cluster.choosing import assignment_of
from nexus.cluster.etcd.operating import Operator
from nexus.cluster.partition_state import PartitionState
from nexus.cluster.port import Member, Report, TopicInfo, View
from nexus.etcd import Client

NODES = (1, 2, 3)


def operator(rates: dict[int, float], replication: int = 1) -> Operator:
    """Partitions of one topic in turn on three brokers, each carrying so many bytes a second."""
    made = Operator(cast("Client", None), "test")
    view = made.view
    view.members.update({n: Member(n, "host", 9092 + n) for n in NODES})
    view.topics["t"] = TopicInfo("t", uuid4(), len(rates), {})
    for number in rates:
        replicas = tuple(NODES[(number + at) % 3] for at in range(replication))
        state = PartitionState(replicas, replicas[0], 0, tuple(sorted(replicas)))
        view.partitions["t", number] = state
    report(view, rates)
    return made


def report(view: View, rates: dict[int, float]) -> None:
    for node in NODES:
        led = {k: s for k, s in view.partitions.items() if s.leader == node}
        view.reports[node] = Report({k: (rates[k[1]], 0.0, 0.0, 0.0, 1e6) for k in led})


@pytest.mark.parametrize("replication", [1, 2])
def test_skewed_load_leads_to_a_plan_that_evens_it(replication: int) -> None:
    # Every third partition carries ten times as much: all of them on the same brokers.
    made = operator({n: 1000.0 if n % 3 == 0 else 100.0 for n in range(12)}, replication)
    plan = made.plan("dynamic")
    assert 1 <= len(plan.changes) <= 6
    after = {"t": tuple(assignment_of(made.view)["t"])}
    moved = list(after["t"])
    for change in plan.changes:
        assert len(set(change.after)) == replication
        moved[change.partition] = change.after
    nodes = [Node(n) for n in NODES]
    before = carried_by(after, made.view.loads, nodes)
    shares = carried_by({"t": tuple(moved)}, made.view.loads, nodes)
    assert max(before.values()) / min(before.values()) > 1.5
    assert max(shares.values()) / min(shares.values()) < 1.5


def test_even_load_with_noise_moves_nothing_however_often_one_looks() -> None:
    chance = random.Random(8)
    made = operator(dict.fromkeys(range(90), 100.0))
    for _ in range(100):
        # All that a broker leads goes up and down together, as it does when its clients pause.
        swing = [chance.uniform(0.88, 1.12) for _ in NODES]
        report(made.view, {n: 100.0 * swing[n % 3] for n in range(90)})
        assert made.plan("dynamic").changes == ()


def test_what_was_evened_stays_where_it_is() -> None:
    made = operator({n: 1000.0 if n % 3 == 0 else 100.0 for n in range(12)})
    rates = {k[1]: load for k, load in made.view.loads.items()}
    for change in made.plan("dynamic").changes:
        key = ("t", change.partition)
        made.view.partitions[key] = PartitionState(change.after, change.after[0], 1, change.after)
    chance = random.Random(9)
    for _ in range(50):
        report(made.view, {n: load * chance.uniform(0.95, 1.05) for n, load in rates.items()})
        assert made.plan("dynamic").changes == ()


def test_an_idle_cluster_is_evened_by_number() -> None:
    made = operator(dict.fromkeys(range(12), 0.0))
    assert made.plan("dynamic").changes == ()
    made.view.members[4] = Member(4, "host", 9096)
    assert len(made.plan("dynamic").changes) == 3


def test_a_topic_follows_its_own_strategy() -> None:
    made = operator(dict.fromkeys(range(12), 100.0))
    by_default = made.plan("dynamic")
    assert by_default.changes == ()
    info = made.view.topics["t"]
    made.view.topics["t"] = info._replace(configs={"partition.strategy": "ring"})
    assert made.plan("dynamic").changes == made.plan("ring").changes != ()
