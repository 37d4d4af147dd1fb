"""How far a batch goes and who reads what, for any backlog and any messages."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.source.admission import LOOK, admitted
from nexus.pipeline.source.planning import (
    TASK_READINGS,
    Limits,
    Profile,
    Range,
    Weight,
    admit,
    pack,
    profile,
)
from support.readings import examples

LIMITS = Limits(readings=2_000_000, bytes=256 << 20, messages=1_000_000)
JSON = Weight(1, 400)
ARROW = Weight(10_000, 150_000)

weights = st.builds(Weight, st.integers(0, 10_000), st.integers(0, 1 << 20))
limits = st.builds(
    Limits, st.integers(1, 10**7), st.integers(1, 1 << 30), st.integers(1, 2_000_000)
)


@st.composite
def backlogs(draw: st.DrawFn) -> list[Range]:
    partitions = draw(st.sets(st.integers(0, 40), min_size=1, max_size=12))
    starts = st.integers(0, 10**9)
    return [
        Range(p, start, start + draw(st.integers(1, 10**7)))
        for p in sorted(partitions)
        for start in [draw(starts)]
    ]


@st.composite
def planned(draw: st.DrawFn) -> tuple[list[Range], dict[int, Profile], Limits]:
    backlog = draw(backlogs())
    profiles = {r.partition: profile(r.start, draw(weights)) for r in backlog}
    for r in backlog:
        for offset in draw(st.sets(st.integers(r.start, r.end), max_size=3)):
            profiles[r.partition] = profiles[r.partition].with_seen(offset, draw(weights))
    return backlog, profiles, draw(limits)


@examples(300)
@given(planned())
def test_a_batch_keeps_to_its_limits_and_moves_on(
    given_: tuple[list[Range], dict[int, Profile], Limits],
) -> None:
    backlog, profiles, within = given_
    ends = admit(backlog, profiles, within)
    assert ends.keys() == {r.partition for r in backlog}
    assert all(r.start <= ends[r.partition] <= r.end for r in backlog)
    moved = sum(ends[r.partition] - r.start for r in backlog)
    assert moved >= 1
    if moved > 1:
        assert sum(_readings(profiles[p], end) for p, end in ends.items()) <= within.readings * 1.01
        assert sum(_bytes(profiles[p], end) for p, end in ends.items()) <= within.bytes * 1.01
        assert moved <= within.messages


@examples(200)
@given(planned())
def test_a_backlog_of_any_size_is_worked_off(
    given_: tuple[list[Range], dict[int, Profile], Limits],
) -> None:
    backlog, profiles, within = given_
    whole = sum(profiles[r.partition].cost(r.end, within) for r in backlog)
    batches = 0
    while backlog and batches < 40:
        ends = admit(backlog, profiles, within)
        batches += 1
        used = sum(profiles[p].cost(end, within) for p, end in ends.items())
        # A batch that is not the last leaves room for less than one more message a partition.
        dear = sum(within.cost(profiles[p].at(end)) for p, end in ends.items())
        is_last = all(ends[r.partition] == r.end for r in backlog)
        assert is_last or used + dear >= min(1, whole)
        backlog = [r._replace(start=ends[r.partition]) for r in backlog]
        backlog = [r for r in backlog if r.messages]
        profiles = {r.partition: _rest(profiles[r.partition], r.start) for r in backlog}


def test_equal_backlogs_get_equal_parts() -> None:
    backlog = [Range(p, 0, 10_000_000) for p in range(12)]
    ends = admit(backlog, {p: profile(0, JSON) for p in range(12)}, LIMITS)
    assert max(ends.values()) - min(ends.values()) <= 1
    assert sum(ends.values()) == pytest.approx(LIMITS.bytes / JSON.bytes, rel=0.001)


def test_a_quiet_partition_is_not_held_up_by_a_busy_one() -> None:
    backlog = [Range(0, 0, 100_000_000), Range(1, 500, 700)]
    ends = admit(backlog, {0: profile(0, JSON), 1: profile(500, JSON)}, LIMITS)
    assert ends[1] == 700
    assert ends[0] > 600_000


def test_larger_backlogs_get_larger_parts() -> None:
    backlog = [Range(0, 0, 8_000_000), Range(1, 0, 2_000_000)]
    ends = admit(backlog, {0: profile(0, JSON), 1: profile(0, JSON)}, LIMITS)
    assert ends[0] > 2 * ends[1]


def test_one_message_too_large_for_a_batch_is_a_batch() -> None:
    tight = Limits(readings=1, bytes=1, messages=1)
    assert admit([Range(3, 7, 9)], {3: profile(7, ARROW)}, tight) == {3: 8}


def test_small_parts_are_filled_up_to_the_limit() -> None:
    backlog = [Range(p, 0, 50) for p in range(12)]
    ends = admit(
        backlog, {p: profile(0, Weight(10, 10)) for p in range(12)}, Limits(100, 10**9, 10**9)
    )
    assert sum(ends.values()) == 10


class Queue:
    """What every message of some partitions holds, and how often anyone looked."""

    def __init__(self, parts: Mapping[int, Sequence[tuple[int, Weight]]]) -> None:
        self.parts = parts  # (messages, weight) one after the other
        self.looks = 0

    def backlog(self) -> list[Range]:
        return [Range(p, 0, sum(n for n, _ in parts)) for p, parts in self.parts.items()]

    def look(self, partition: int, offset: int, end: int) -> Weight:
        self.looks += 1
        seen = [self.at(partition, at) for at in range(offset, min(end, offset + LOOK), 7)]
        count = len(seen)
        return Weight(sum(w.readings for w in seen) / count, sum(w.bytes for w in seen) / count)

    def at(self, partition: int, offset: int) -> Weight:
        for messages, weight in self.parts[partition]:
            if offset < messages:
                return weight
            offset -= messages
        raise AssertionError("past the end")

    def readings(self, ends: Mapping[int, int]) -> float:
        total = 0.0
        for partition, end in ends.items():
            left = end
            for messages, weight in self.parts[partition]:
                total += min(left, messages) * weight.readings
                left -= min(left, messages)
        return total


def test_nobody_looks_where_the_largest_messages_would_fit() -> None:
    queue = Queue({p: [(15, ARROW)] for p in range(12)})
    ends, _ = admitted(queue.backlog(), LIMITS, queue.look)
    assert ends == dict.fromkeys(range(12), 15)
    assert queue.looks == 0


def test_a_backlog_that_changes_from_json_to_arrow_is_cut_where_it_changes() -> None:
    queue = Queue({0: [(300_000, JSON), (100_000, ARROW)]})
    ends, weights = admitted(queue.backlog(), LIMITS, queue.look)
    assert queue.readings(ends) <= 1.05 * LIMITS.readings
    assert ends[0] > 200_000
    assert weights[0].readings < 20


def test_a_backlog_that_changes_from_arrow_to_json_is_filled_with_arrow() -> None:
    queue = Queue({0: [(1_000, ARROW), (5_000_000, JSON)]})
    ends, _ = admitted(queue.backlog(), LIMITS, queue.look)
    assert ends[0] == 200


def test_partitions_of_different_kinds_share_a_batch() -> None:
    queue = Queue({0: [(2_000_000, JSON)], 1: [(10_000, ARROW)]})
    ends, weights = admitted(queue.backlog(), LIMITS, queue.look)
    assert 0.9 * LIMITS.readings <= queue.readings(ends) + 1_000_000 <= 2 * LIMITS.readings
    assert ends[0] > 1_000
    assert ends[1] > 20
    assert weights[1].readings == pytest.approx(10_000)


def test_few_arrow_messages_among_many_of_json_are_not_overlooked() -> None:
    rng = random.Random(5)
    mixed = [
        (rng.randrange(1, 100), JSON if n % 2 else ARROW._replace(readings=5_000))
        for n in range(400)
    ]
    queue = Queue({0: mixed})
    ends, _ = admitted(queue.backlog(), LIMITS, queue.look)
    assert 0.2 * LIMITS.readings <= queue.readings(ends) <= 5 * LIMITS.readings


@examples(300)
@given(backlogs(), st.integers(1, 64), st.dictionaries(st.integers(0, 40), weights))
def test_tasks_share_all_messages_evenly(
    ranges: list[Range], tasks: int, known: dict[int, Weight]
) -> None:
    parts = pack(ranges, tasks, known)
    assert 1 <= len(parts) <= tasks
    assert _joined([r for part in parts for r in part]) == ranges
    work = [sum(r.messages * _each(r, known) for r in part) for part in parts]
    largest = max(_each(r, known) for r in ranges)
    assert max(work) - min(work) <= 2 * largest + sum(work) * 1e-6


def test_little_work_is_one_task() -> None:
    ranges = [Range(p, 5, 105) for p in range(12)]
    known = dict.fromkeys(range(12), JSON)
    assert pack(ranges, 8, known) == [tuple(ranges)]


def test_a_long_partition_is_split() -> None:
    known = {3: JSON}
    parts = pack([Range(3, 0, 10 * TASK_READINGS)], 4, known)
    assert [part[0].messages for part in parts] == [50_000] * 4


def test_nothing_to_read_is_no_task() -> None:
    assert pack([], 4) == []
    assert pack([Range(0, 5, 5)], 4) == []


def _each(r: Range, known: Mapping[int, Weight]) -> float:
    return max(known.get(r.partition, Weight(1_000, 0)).readings, 1)


def _joined(ranges: Sequence[Range]) -> list[Range]:
    whole = [ranges[0]]
    for before, after in pairwise(ranges):
        if (before.partition, before.end) == (after.partition, after.start):
            whole[-1] = whole[-1]._replace(end=after.end)
        else:
            whole.append(after)
    return whole


def _readings(known: Profile, end: int) -> float:
    return sum(count * weight.readings for count, weight in known.segments(end))


def _bytes(known: Profile, end: int) -> float:
    return sum(count * weight.bytes for count, weight in known.segments(end))


def _rest(known: Profile, start: int) -> Profile:
    """The same messages, seen from further on."""
    later = [(offset, weight) for offset, weight in known.seen if offset > start]
    return Profile(start, ((start, known.at(start)), *later))
