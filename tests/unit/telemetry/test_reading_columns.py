"""What a reading is made of, and how sources make tables of them."""

import pyarrow as pa
import pytest

from nexus.telemetry.errors import SchemaError
from nexus.telemetry.reading import (
    READING_SCHEMA,
    SOURCE_SCHEMA,
    TIMESTAMP,
    conform,
    encoded,
    plain,
    source_table,
)
from support.readings import readings

BARE = {
    "timestamp": pa.array([1, 2], TIMESTAMP),
    "source_metric": pa.array(["m", "m"]),
    "source_value": pa.array([1.0, 2.0]),
}


def test_a_canonical_reading_is_a_source_reading_and_three_columns() -> None:
    added = READING_SCHEMA.names[len(SOURCE_SCHEMA.names) :]
    assert READING_SCHEMA.names[: len(SOURCE_SCHEMA.names)] == SOURCE_SCHEMA.names
    assert added == ["metric", "value", "instance"]


def test_what_a_source_does_not_say_is_empty_text() -> None:
    table = source_table({**BARE, "hostname": "h1", "gpu": pa.array(["0", None])})
    rows = plain(conform(table)).to_pylist()
    assert [(row["hostname"], row["gpu"], row["uuid"]) for row in rows] == [
        ("h1", "0", ""),
        ("h1", "", ""),
    ]
    assert rows[0]["ingested"] == rows[0]["timestamp"]


def test_plain_and_encoded_tables_are_the_same_readings() -> None:
    table = conform(source_table({**BARE, "cluster": "c"}))
    assert plain(table).schema.equals(SOURCE_SCHEMA)
    assert plain(table).equals(conform(plain(table)))


def test_a_source_without_a_value_column_is_told_so() -> None:
    with pytest.raises(SchemaError, match=r"missing.*source_value"):
        source_table({name: BARE[name] for name in ("timestamp", "source_metric")})
    with pytest.raises(SchemaError, match=r"unknown.*colour"):
        source_table({**BARE, "colour": "red"})


def test_a_table_that_lacks_columns_is_no_table_of_readings() -> None:
    with pytest.raises(SchemaError, match="uuid"):
        conform(readings({}).drop_columns(["uuid"]))


def test_a_missing_number_stops_where_only_good_readings_may_pass() -> None:
    holed = source_table({**BARE, "source_value": pa.array([1.0, None])})
    with pytest.raises(SchemaError, match="source_value has 1 nulls"):
        conform(holed)


def test_a_null_that_hides_in_a_dictionary_becomes_empty_text() -> None:
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a", None]))
    table = conform(source_table({**BARE, "pod": hidden}))
    assert plain(table)["pod"].to_pylist() == ["a", ""]


def test_a_column_of_many_chunks_becomes_one_dictionary() -> None:
    pieces = pa.chunked_array([encoded(pa.array(["a", "b"])), encoded(pa.array(["b", "c"]))])
    whole = encoded(pieces)
    assert whole.dictionary.to_pylist() == ["a", "b", "c"]
    assert whole.to_pylist() == ["a", "b", "b", "c"]
    assert encoded(pa.chunked_array([], pa.string())).to_pylist() == []
