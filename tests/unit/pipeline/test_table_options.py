"""What the data source over tables can be told, and what is said of wrong options."""

from datetime import UTC, datetime

import pytest

from nexus.pipeline.table_options import BadTableOption, parse_table_options, shares
from nexus.telemetry.tables import TABLES

USUAL = {"store": "delta:///lake", "table": "readings"}


def test_options_have_defaults() -> None:
    options = parse_table_options(USUAL)
    assert options.columns == tuple(TABLES["readings"].schema.names)
    assert (options.form, options.files, options.after, options.low) == ("flat", None, None, None)
    assert options.row_filter() is None


def test_options_are_understood() -> None:
    options = parse_table_options(
        {
            **USUAL,
            "From": "3",
            "to": "7",
            "low": "2025-07-18T12:00:00Z",
            "high": "2025-07-18 13:00",
            "columns": "uuid, value",
            "files": '["a", "b"]',
            "tasks": "5",
        }
    )
    assert (options.after, options.upto, options.tasks) == (3, 7, 5)
    assert options.low == datetime(2025, 7, 18, 12, tzinfo=UTC)
    assert options.high == datetime(2025, 7, 18, 13, tzinfo=UTC)
    assert options.columns == ("uuid", "value")
    assert options.files == ("a", "b")
    assert options.row_filter() is not None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"table": "nothing"}, 'no table "nothing"; there are readings, quarantine'),
        ({"colums": "uuid"}, "unknown option colums"),
        ({"columns": "uuid,colour"}, 'readings has no column "colour"'),
        ({"from": "latest"}, 'option from: found "latest", expected a number'),
        ({"low": "noon"}, 'option low: found "noon", expected a time such as'),
        ({"files": "a.parquet"}, "option files: expected a JSON list of paths"),
        ({"files": "[1]"}, "option files: expected a JSON list of paths"),
        ({"form": "wide"}, 'option form: found "wide", expected flat or narrow'),
        ({"form": "narrow", "columns": "uuid"}, "only whole readings have the form narrow"),
        ({"form": "narrow", "table": "rollup_1m"}, "only whole readings have the form narrow"),
    ],
)
def test_a_wrong_option_says_what_would_be_right(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(BadTableOption, match=said):
        parse_table_options({**USUAL, **wrong})


def test_files_are_dealt_out_evenly() -> None:
    paths = [f"{number}" for number in range(7)]
    dealt = shares(paths, 3)
    assert sorted(len(share) for share in dealt) == [2, 2, 3]
    assert sorted(path for share in dealt for path in share) == paths
    assert shares(paths[:2], 8) == [("0",), ("1",)]
    assert shares([], 8) == []
