"""The comparison: its matrix, its order, its statistics, and when it refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from peers.busy import refusal
from peers.matrix import BASE, POINTS, QUICK, nearest, points_for
from peers.schedule import turns
from peers.servers.process import Durability
from peers.statistics import percentile, spread_of
from peers.systems import SYSTEMS


def test_every_round_has_every_system_once_and_begins_with_another() -> None:
    planned = list(turns(["a", "b", "c"], 5))
    rounds = [[name for repeat, name in planned if repeat == number] for number in range(5)]
    assert all(Counter(names) == Counter("abc") for names in rounds)
    assert [names[0] for names in rounds] == ["a", "b", "c", "a", "b"]


def test_each_point_varies_one_thing_from_the_base() -> None:
    for point in POINTS[1:]:
        changed = [
            name
            for name in ("size", "lanes", "producers", "consumers", "durability")
            if getattr(point, name) != getattr(BASE, name)
        ]
        # Consumers share partitions, so ten of them need ten.
        assert changed in ([changed[0]], ["lanes", "consumers"])


def test_what_a_system_does_not_offer_is_run_with_its_nearest_and_never_twice() -> None:
    nats = SYSTEMS["nats"]
    assert nearest(nats, Durability.FSYNC) == Durability.INTERVAL
    assert nearest(SYSTEMS["etcd"], Durability.INTERVAL) == Durability.FSYNC
    ran = {point.label: how for how, point in points_for(nats, POINTS)}
    assert ran["base"] == ran["interval"] == Durability.INTERVAL
    assert "no fsync" not in ran


def test_a_point_that_asks_for_more_than_durability_is_always_run() -> None:
    asked = replace(BASE, label="4 KB, no fsync", size=4096, durability=Durability.NONE)
    assert [how for how, _ in points_for(SYSTEMS["nats"], [asked])] == [Durability.INTERVAL]


def test_the_quick_run_reaches_every_kind_of_point() -> None:
    kept = {p.label for p in QUICK.points}
    assert {"base", "64 KB", "10 consumers", "no fsync"} == kept


def test_the_median_and_the_spread_are_those_of_the_repeats() -> None:
    found = spread_of([5.0, 1.0, 4.0, 2.0, 9.0])
    assert (found.median, found.least, found.most, found.count) == (4.0, 1.0, 9.0, 5)


@pytest.mark.parametrize(("share", "value"), [(0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert percentile(range(1, 1001), share) == value


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 0.999) == 7.0


def test_a_busy_machine_is_refused_with_the_way_out() -> None:
    told = refusal(0.63)
    assert told is not None
    assert "63%" in told
    assert "--force" in told
    assert refusal(0.05) is None
