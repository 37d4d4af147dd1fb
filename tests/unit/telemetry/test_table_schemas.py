"""The tables that every store has."""

import pytest

from nexus.telemetry.reading import READING_SCHEMA
from nexus.telemetry.tables import TABLES

NAMES = [
    "readings",
    "quarantine",
    "rollup_1m",
    "rollup_1h",
    "latest",
    "gpus",
    "episodes",
    "incidents",
]


def test_all_tables_are_defined() -> None:
    assert list(TABLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_keys_and_partitions_are_columns_that_are_always_there(name: str) -> None:
    table = TABLES[name]
    for column in (*table.key, *table.partitions):
        assert not table.schema.field(column).nullable


def test_readings_hold_all_of_a_reading_and_are_parted_by_day() -> None:
    table = TABLES["readings"]
    assert table.schema.names == [*READING_SCHEMA.names, "day"]
    assert table.partitions == ("day",)


def test_a_refused_message_can_be_found_again() -> None:
    assert {"reason", "topic", "partition", "offset", "raw"} <= set(
        TABLES["quarantine"].schema.names
    )
