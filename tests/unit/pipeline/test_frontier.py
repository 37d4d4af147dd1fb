"""What is newer than the frontier is new; all else is looked up."""

from itertools import chain

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.frontier import FRONTIER_SCHEMA, Frontier, ends_of
from support.readings import examples

_rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9)), max_size=30)


def table(rows: list[tuple[int, int]]) -> pa.Table:
    series, times = [a for a, _ in rows], [t for _, t in rows]
    columns = [pa.array(series, pa.int64()), pa.array(times, FRONTIER_SCHEMA.field(1).type)]
    return pa.table(columns, schema=FRONTIER_SCHEMA)


@examples(100)
@given(st.lists(_rows, max_size=4), _rows)
def test_late_is_whatever_is_not_newer_than_what_is_stored(
    stored: list[list[tuple[int, int]]], new: list[tuple[int, int]]
) -> None:
    frontier = Frontier()
    for rows in stored:
        frontier = frontier.advanced([ends_of(table(rows))])
    sent = Frontier.from_bytes(frontier.to_bytes())
    fresh = table(new)
    late = sent.is_late(fresh["series_a"], fresh["timestamp"]).to_pylist()
    last: dict[int, int] = {}
    for a, t in chain.from_iterable(stored):
        last[a] = max(t, last.get(a, t))
    assert late == [a in last and t <= last[a] for a, t in new]
