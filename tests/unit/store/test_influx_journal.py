"""The journal: what is the case follows from commits, one after the other."""

import numpy as np

from nexus.store.influx.journal import Arrival, Came, Entry, State
from nexus.store.influx.writing import PIECES_MAX, came_of, merged
from nexus.store.questions.spans import DAY, HOUR, MINUTE

NOON = 1_752_840_000_000_000


def test_what_is_the_case_survives_its_own_words() -> None:
    came = {"readings": [Came(NOON, 3, NOON + 1, NOON + 2, NOON)]}
    entry = Entry(1, "app", 0, came, rolled={"rollup_1m": (NOON, 1)}, removed={"x": ["1970-01-01"]})
    assert Entry.from_json(entry.to_json()) == entry
    state = State(identity="id").after(1, entry)
    assert State.from_json(state.to_json()) == state
    assert state.apps == {"app": 0}
    assert set(state.versions) == {"readings", "latest", "gpus", "rollup_1m", "x"}


def test_hours_add_up_and_days_go() -> None:
    one = Came(NOON, 3, NOON, NOON + 5, 10)
    state = State().after(1, Entry(1, came={"readings": [one, one._replace(start=NOON + MINUTE)]}))
    assert state.held["readings"] == {NOON: Came(NOON, 6, NOON, NOON + 5, 10)}
    gone = state.after(2, Entry(2, removed={"readings": ["2025-07-18"]}))
    assert (gone.held["readings"], gone.arrivals) == ({}, [])
    assert gone.removed == {"2025-07-18"}


def test_an_arrival_is_forgotten_when_all_that_is_derived_stands_for_it() -> None:
    one = Came(NOON, 3, NOON, NOON + 5, 10)
    state = State().after(1, Entry(1, came={"readings": [one]}))
    closed = NOON + HOUR
    for version, entry in enumerate(
        [
            Entry(2, rolled={"rollup_1m": (closed, 1)}),
            Entry(3, latest=1),
        ],
        2,
    ):
        state = state.after(version, entry)
        assert state.arrivals == [Arrival(NOON, NOON + 5, 1)]
    assert state.after(4, Entry(4, rolled={"rollup_1h": (closed, 1)})).arrivals == []


def test_what_came_is_told_by_the_minute_unless_that_is_too_much() -> None:
    moments = np.array([NOON, NOON + 1, NOON + MINUTE])
    assert came_of(moments, moments) == [
        Came(NOON, 2, NOON, NOON + 1, NOON + 1),
        Came(NOON + MINUTE, 1, NOON + MINUTE, NOON + MINUTE, NOON + MINUTE),
    ]
    many = NOON + np.arange(PIECES_MAX + 1) * DAY
    days = merged([*came_of(many, many), Came(NOON + MINUTE, 1, NOON, NOON, NOON)])
    assert sum(each.rows for each in days) == PIECES_MAX + 2
    assert all(each.start % DAY == 0 for each in days)
