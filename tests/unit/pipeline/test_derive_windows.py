"""Which windows are computed, and in which pieces: nothing is left out, nothing done twice."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.derive.windows import (
    HOUR,
    MINUTE,
    Held,
    Piece,
    Span,
    Touched,
    clipped,
    floor,
    is_sparse,
    merged,
    next_closed,
    overlaps,
    pieces,
    windows_of,
)

MOMENTS = st.integers(0, 50)
SPANS = st.lists(st.tuples(MOMENTS, MOMENTS).map(lambda t: Span(min(t), max(t))), max_size=8)
HELD = st.lists(
    st.tuples(MOMENTS, MOMENTS, st.integers(0, 100)).map(
        lambda t: Held(min(t[:2]) * MINUTE, max(t[:2]) * MINUTE, t[2])
    ),
    max_size=8,
)


def moments(spans: list[Span] | tuple[Span, ...]) -> list[int]:
    return [moment for span in spans for moment in range(span.low, span.high)]


@given(SPANS)
def test_merged_spans_hold_the_same_time_once_and_in_order(spans: list[Span]) -> None:
    joined = merged(spans)
    assert moments(joined) == sorted(set(moments(spans)))
    assert all(a.high < b.low for a, b in pairwise(joined))


@given(SPANS, st.none() | MOMENTS, st.none() | MOMENTS)
def test_clipping_keeps_what_lies_between(
    spans: list[Span], low: int | None, high: int | None
) -> None:
    kept = [m for m in moments(spans) if (low is None or m >= low) and (high is None or m < high)]
    assert moments(clipped(spans, low, high)) == kept


@given(SPANS, MOMENTS, MOMENTS)
def test_a_file_overlaps_when_one_of_its_moments_lies_in_a_span(
    spans: list[Span], one: int, other: int
) -> None:
    low, high = min(one, other), max(one, other)
    assert overlaps(merged(spans), low, high) == any(
        low <= moment <= high for moment in moments(spans)
    )


@given(HELD)
def test_the_windows_of_files_hold_every_row(files: list[Held]) -> None:
    windows = windows_of(files, HOUR)
    assert all(span.low % HOUR == span.high % HOUR == 0 for span in windows)
    assert all(
        any(span.low <= moment < span.high for span in windows)
        for file in files
        for moment in (file.low, file.high)
    )


@given(HELD, st.integers(1, 200))
def test_pieces_are_all_of_the_windows_once_and_in_order(files: list[Held], rows: int) -> None:
    spans = windows_of(files, MINUTE)
    made = pieces(spans, files, rows, HOUR)
    assert merged(span for piece in made for span in piece.spans) == spans
    assert sum(s.high - s.low for p in made for s in p.spans) == sum(s.high - s.low for s in spans)
    assert all(a.hull.high <= b.hull.low for a, b in pairwise(made))
    counted = sum(file.rows for file in files)
    assert abs(sum(piece.rows for piece in made) - counted) <= len(made)


def test_months_are_cut_so_that_a_piece_has_about_as_many_readings_as_it_may() -> None:
    days = [Held(day * 24 * HOUR, (day + 1) * 24 * HOUR - 1, 24_000) for day in range(90)]
    made = pieces(windows_of(days, MINUTE), days, 10_000, HOUR)
    assert len(made) == 90 * 24 / 10
    assert max(piece.rows for piece in made) <= 10_000


def test_a_gap_of_years_makes_no_pieces_of_its_own() -> None:
    files = [Held(0, MINUTE, 10), Held(200_000 * HOUR, 200_000 * HOUR, 10)]
    made = pieces(windows_of(files, MINUTE), files, 1_000, HOUR)
    assert [piece.rows for piece in made] == [20]
    assert len(made[0].spans) == 2


def test_a_window_closes_when_it_is_over_and_its_grace_too() -> None:
    end = 10 * MINUTE - 1
    assert next_closed(0, 10 * MINUTE + 29, 30, MINUTE, end) == 9 * MINUTE
    assert next_closed(0, 10 * MINUTE + 30, 30, MINUTE, end) == 10 * MINUTE


def test_nothing_closes_beyond_the_last_reading_nor_opens_again() -> None:
    assert next_closed(None, 10 * HOUR, 0, MINUTE, None) == 0
    assert next_closed(0, 10 * HOUR, 0, MINUTE, 5 * MINUTE) == 6 * MINUTE
    assert next_closed(7 * MINUTE, 5 * MINUTE, 0, MINUTE, 5 * MINUTE) == 7 * MINUTE
    ahead = 10 * MINUTE + 9 * MINUTE  # a clock ahead of ours closes nothing early
    assert next_closed(0, 10 * MINUTE, 0, MINUTE, ahead) == 10 * MINUTE


def test_late_readings_of_few_gpus_do_not_have_all_computed_again() -> None:
    exact = {
        0: frozenset({"a"}),
        MINUTE: frozenset({"b"}),
        HOUR: None,
    }
    touched = Touched([Span(2 * HOUR, 2 * HOUR + MINUTE)], exact, MINUTE)
    assert touched.spans() == [
        Span(0, 2 * MINUTE),
        Span(HOUR, HOUR + MINUTE),
        Span(2 * HOUR, 2 * HOUR + MINUTE),
    ]

    def gpus(low: int, high: int, most: int = 2) -> frozenset[str] | None:
        return touched.gpus(Piece((Span(low, high),), 0), most)

    assert gpus(0, 2 * MINUTE) == frozenset("ab")
    assert gpus(MINUTE, 2 * MINUTE) == frozenset("b")
    assert gpus(0, 2 * MINUTE, most=1) is None
    assert gpus(0, HOUR + MINUTE) is None
    assert gpus(2 * HOUR, 2 * HOUR + MINUTE) is None


def test_a_file_is_sparse_by_its_readings_a_window() -> None:
    assert not is_sparse(Held(0, 2 * MINUTE - 1, 400), MINUTE, 200)
    assert is_sparse(Held(0, 2 * MINUTE, 400), MINUTE, 200)


def test_a_window_starts_at_a_multiple_of_its_width() -> None:
    assert [floor(n, 60) for n in (0, 59, 60, 61)] == [0, 0, 60, 60]
