"""Time is cut and joined without losing or doubling any of it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from nexus.store.questions.coverage import STRETCHES_MAX, Rolled, coverage
from nexus.store.questions.slices import Weight, slices
from nexus.store.questions.spans import Stretch, clipped, inner, joined, less, outer

moments = st.integers(-100, 400)
stretches = st.lists(st.tuples(moments, st.integers(1, 50)), max_size=8).map(
    lambda pairs: [Stretch(low, low + width) for low, width in pairs]
)
widths = st.sampled_from([1, 3, 10, 60])


def ticks(spans: list[Stretch]) -> set[int]:
    return {tick for span in spans for tick in range(span.low, span.high)}


@given(stretches)
def test_joined_stretches_are_the_same_time_in_order_and_apart(spans: list[Stretch]) -> None:
    found = joined(spans)
    assert ticks(found) == ticks(spans)
    assert all(a.high < b.low for a, b in itertools.pairwise(found))


@given(stretches, stretches)
def test_less_takes_away_just_what_was_taken(spans: list[Stretch], taken: list[Stretch]) -> None:
    found = less(joined(spans), joined(taken))
    assert ticks(found) == ticks(spans) - ticks(taken)
    assert sum(s.high - s.low for s in found) == len(ticks(found))


@given(stretches, moments, st.integers(0, 100))
def test_clipped_is_what_lies_within(spans: list[Stretch], low: int, width: int) -> None:
    assert ticks(clipped(spans, low, low + width)) == ticks(spans) & set(range(low, low + width))


@given(stretches, widths)
def test_inner_windows_lie_whole_in_their_stretch_and_outer_ones_hold_it(
    spans: list[Stretch], width: int
) -> None:
    for span in spans:
        around = outer(span, width)
        assert around.low <= span.low < span.high <= around.high
        assert around.low > span.low - width
        assert around.high < span.high + width
        for within in inner([span], width):
            assert span.low <= within.low < within.high <= span.high
            assert within.low % width == 0
            assert within.high % width == 0


@given(
    st.tuples(moments, st.integers(1, 300)).map(lambda p: Stretch(p[0], p[0] + p[1])),
    st.lists(st.tuples(st.sampled_from([60, 10, 5]), moments, stretches), max_size=3),
)
def test_every_moment_is_answered_for_by_one_table_that_may(
    asked: Stretch, given_rollups: list[tuple[int, int, list[Stretch]]]
) -> None:
    rollups = [
        Rolled(str(number), width, closed - closed % width, joined(outer(s, width) for s in stale))
        for number, (width, closed, stale) in enumerate(given_rollups)
    ]
    found = coverage(asked, rollups)
    answered = [*found.raw, *(s for _, spans in found.rolled for s in spans)]
    assert sum(s.high - s.low for s in answered) == asked.high - asked.low
    assert ticks(answered) == ticks([asked])
    for rollup, spans in found.rolled:
        assert not ticks(list(spans)) & ticks(list(rollup.stale))
        assert all(s.high <= rollup.closed for s in spans)
        assert all(s.low % rollup.width == 0 == s.high % rollup.width for s in spans)


def test_a_rollup_full_of_holes_answers_for_a_bounded_number_of_stretches() -> None:
    stale = [Stretch(20 * n, 20 * n + 10) for n in range(500)]
    found = coverage(Stretch(0, 10_000), [Rolled("r", 10, 10_000, stale)])
    ((_, spans),) = found.rolled
    assert len(spans) == STRETCHES_MAX
    assert ticks([*spans, *found.raw]) == ticks([Stretch(0, 10_000)])


@given(
    st.tuples(moments, st.integers(1, 300)).map(lambda p: Stretch(p[0], p[0] + p[1])),
    st.lists(st.tuples(moments, st.integers(1, 200), st.integers(0, 1000)), max_size=6),
    st.integers(1, 500),
    widths,
    st.booleans(),
)
def test_slices_follow_each_other_through_all_of_the_time(
    asked: Stretch,
    files: list[tuple[int, int, int]],
    rows: int,
    width: int,
    descending: bool,
) -> None:
    whole = outer(asked, width)
    weights = [Weight(Stretch(low, low + length), count) for low, length, count in files]
    found = list(slices(whole, weights, rows, width=width, descending=descending))
    if descending:
        found.reverse()
    assert found[0].low == whole.low
    assert found[-1].high == whole.high
    assert all(a.high == b.low for a, b in itertools.pairwise(found))
    assert all(s.low < s.high and s.low % width == 0 for s in found)


def test_a_slice_holds_about_the_rows_that_were_asked_for() -> None:
    weights = [Weight(Stretch(0, 1000), 1000.0)]
    assert list(slices(Stretch(0, 1000), weights, 100, descending=False)) == [
        Stretch(0, 100),
        Stretch(100, 300),
        Stretch(300, 700),
        Stretch(700, 1000),
    ]
    assert next(slices(Stretch(0, 1000), weights, 100, descending=True)) == Stretch(900, 1000)
