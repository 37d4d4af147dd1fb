"""Rows as JSON: what a plain serialiser would have written, only sooner."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.gateway.rendering.json_rows import FEW_ROWS, json_rows
from nexus.gateway.rendering.series import SERIES_FIELDS, series_document
from nexus.telemetry.reading import TIMESTAMP

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.none() | st.integers(0, 10**15),
            "a": TEXT,
            "b": st.sampled_from(["", '"', "\\", "</script>", "\x00", "x"]),
            "value": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "count": st.integers(-(2**63), 2**63 - 1),
            "maybe": st.none() | TEXT,
            "c": TEXT,
            "exact": st.booleans(),
        }
    ),
    max_size=20,
)
SCHEMA = pa.schema(
    [
        pa.field("at", TIMESTAMP),
        pa.field("a", pa.string(), nullable=False),
        pa.field("b", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("maybe", pa.string()),
        pa.field("c", pa.string(), nullable=False),
        pa.field("exact", pa.bool_(), nullable=False),
    ]
)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    if row["at"] is None:
        return row
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["at"])
    return {**row, "at": moment.isoformat().replace("+00:00", "Z")}


@settings(max_examples=40)
@given(ROWS)
def test_rows_are_what_they_say(rows: list[dict[str, Any]]) -> None:
    for copies in (1, FEW_ROWS):  # few rows are written another way than many
        table = pa.Table.from_pylist(rows * copies, SCHEMA)
        found = json.loads(b"[" + json_rows(table) + b"]")
        assert found == [plain(row) for row in rows] * copies
        assert [list(row) for row in found] == [SCHEMA.names] * len(rows) * copies


def test_a_table_in_several_pieces_is_one() -> None:
    piece = pa.Table.from_pylist(
        [{"at": 1, "a": "x", "b": "", "value": 1.0, "count": 1, "c": "", "exact": True}], SCHEMA
    )
    assert json_rows(pa.concat_tables([piece, piece])) == b",".join([json_rows(piece)] * 2)


def test_no_number_is_null() -> None:
    assert json_rows(pa.table({"v": [float("nan"), float("inf")]})) == b'{"v":null},{"v":null}'


def test_series_are_apart_and_in_order_of_time() -> None:
    names = dict.fromkeys(SERIES_FIELDS, "")
    rows = [
        {**names, "uuid": "B", "timestamp": 3_000_000, "value": 3.0},
        {**names, "uuid": "A", "timestamp": 2_500_000, "value": None},
        {**names, "uuid": "B", "timestamp": 1_000_000, "value": 1.0},
    ]
    fields = [pa.field(name, pa.string(), nullable=False) for name in SERIES_FIELDS]
    fields += [pa.field("timestamp", TIMESTAMP), pa.field("value", pa.float64())]
    table = pa.Table.from_pylist(rows, pa.schema(fields))
    found = json.loads(series_document(table, "raw", truncated=False))
    assert [(s["uuid"], s["time"], s["value"]) for s in found["series"]] == [
        ("B", [1000, 3000], [1.0, 3.0]),
        ("A", [2500], [None]),
    ]
    empty = json.loads(series_document(table.slice(0, 0), "1m", truncated=False))
    assert empty == {"resolution": "1m", "series": [], "truncated": False}
