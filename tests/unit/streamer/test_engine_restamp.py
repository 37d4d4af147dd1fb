"""Restamping moves every reading by one constant and keeps its own time in a label."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nexus.streamer.restamp import first_time_us, last_time_us, restamp
from nexus.telemetry.labels import canonical_labels
from nexus.telemetry.reading import TIMESTAMP, plain, source_table

T0 = 1_752_871_354_000_000
LABELS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)


def table_of(times: list[int], labels: list[dict[str, str]]) -> pa.Table:
    return source_table(
        {
            "timestamp": pa.array(times, TIMESTAMP),
            "source_metric": "M",
            "source_value": pa.array([1.0] * len(times)),
            "labels": pa.array([canonical_labels(each) for each in labels], pa.string()),
        }
    )


def test_the_first_and_last_time_are_found_wherever_they_stand() -> None:
    table = table_of([T0 + 5, T0, T0 + 9, T0 + 1], [{}] * 4)
    assert (first_time_us(table), last_time_us(table)) == (T0, T0 + 9)


def test_whole_seconds_are_written_as_they_came() -> None:
    table = restamp(table_of([T0, T0 + 250_000], [{}, {"z": "1"}]), 7)
    assert plain(table).column("labels").to_pylist() == [
        '{"source_timestamp":"2025-07-18T20:42:34Z"}',
        '{"source_timestamp":"2025-07-18T20:42:34.250000Z","z":"1"}',
    ]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [T0 + 7, T0 + 250_007]


@given(
    st.lists(st.tuples(st.integers(0, 10**13), LABELS), min_size=1, max_size=8),
    st.integers(-(10**12), 10**12),
)
def test_labels_stay_canonical_whatever_they_hold(
    rows: list[tuple[int, dict[str, str]]], shift: int
) -> None:
    times = [T0 + at for at, _ in rows]
    moved = plain(restamp(table_of(times, [labels for _, labels in rows]), shift))
    assert moved.column("timestamp").cast(pa.int64()).to_pylist() == [t + shift for t in times]
    for text, (_, labels) in zip(moved.column("labels").to_pylist(), rows, strict=True):
        parsed = json.loads(text)
        assert text == canonical_labels(parsed)
        own = parsed.pop("source_timestamp")
        assert own.endswith("Z")
        assert parsed == {k: v for k, v in labels.items() if k != "source_timestamp"}
