"""Why a source's row is refused before it is published."""

from math import inf, nan

import pyarrow as pa
import pytest

from nexus.telemetry import checks
from nexus.telemetry.reading import TIMESTAMP, source_table
from support.readings import NOON_US, fleet, readings

GOOD = {"uuid": "GPU-1", "source_metric": "DCGM_FI_DEV_GPU_TEMP", "source_value": 1.0}
MINUTE_US = 60_000_000


def reason(**changes: object) -> str | None:
    found: str | None = checks.refusals(readings(GOOD | changes), NOON_US)[0].as_py()
    return found


def test_good_readings_are_not_refused_however_old() -> None:
    assert reason() is None
    assert reason(timestamp=946_684_800_000_000) is None
    assert checks.refusals(fleet(100, gpus=8), NOON_US).null_count == 100


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_value_that_is_not_finite_is_no_number(value: float) -> None:
    assert reason(source_value=value) == checks.NO_NUMBER


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"timestamp": 946_684_799_999_999}, checks.TOO_EARLY),
        ({"timestamp": NOON_US + 11 * MINUTE_US}, checks.TOO_LATE),
        ({"timestamp": NOON_US + 9 * MINUTE_US}, None),
        ({"source_metric": ""}, checks.NO_METRIC),
        ({"uuid": ""}, checks.NO_IDENTITY),
        ({"uuid": "", "hostname": "h"}, checks.NO_IDENTITY),
        ({"uuid": "", "hostname": "h", "gpu": "0"}, None),
        ({"uuid": "", "hostname": "h", "source_metric": "up"}, None),
        ({"uuid": "", "source_metric": "up"}, checks.NO_IDENTITY),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], expected: str | None) -> None:
    assert reason(**changes) == expected


def test_a_time_or_value_that_could_not_be_read_is_refused() -> None:
    table = source_table(
        {
            "timestamp": pa.array([None, NOON_US], TIMESTAMP),
            "source_metric": pa.array(["m", "m"]),
            "source_value": pa.array([1.0, None]),
            "uuid": "GPU-1",
        }
    )
    assert checks.refusals(table, NOON_US).to_pylist() == [checks.NO_TIME, checks.NO_NUMBER]
