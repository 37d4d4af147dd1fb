"""What may go into the table, and why the rest may not."""

from datetime import UTC, datetime
from math import inf, nan

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from nexus.pipeline.narrow import Narrower, unreadable
from nexus.pipeline.validate import validate
from nexus.telemetry.checks import NO_IDENTITY, NO_NUMBER, TOO_EARLY, TOO_LATE
from nexus.telemetry.normalise import normalise
from support.readings import NOON_US, readings
from support.spark import spark_session

NOON = datetime.fromtimestamp(NOON_US / 1e6, UTC)
MINUTE_US = 60_000_000

CASES: dict[str, tuple[dict[str, object], str | None]] = {
    "good": ({}, None),
    "old archive": ({"timestamp": 946_684_800_000_000}, None),
    "too early": ({"timestamp": 946_684_799_999_999}, TOO_EARLY),
    "in nine minutes": ({"timestamp": NOON_US + 9 * MINUTE_US}, None),
    "in eleven minutes": ({"timestamp": NOON_US + 11 * MINUTE_US}, TOO_LATE),
    "nan": ({"source_value": nan}, NO_NUMBER),
    "infinite": ({"source_value": -inf}, NO_NUMBER),
    "absolute zero": ({"source_value": -300.0}, "outside of"),
    "blank": ({"source_value": float(0x7FFFFFF0)}, None),
    "nameless": ({"uuid": ""}, NO_IDENTITY),
}


def checked() -> dict[str, str | None]:
    rows = [{"uuid": "GPU-1", **row} for row, _ in CASES.values()]
    table = normalise(readings(*rows))
    place = pa.arange(0, len(rows))
    batches = list(Narrower().batches(table, place.cast(pa.int32()), place, place.cast(pa.int32())))
    batches.append(unreadable([7], [99], ["no JSON"], [b"{"]))
    frame = spark_session().createDataFrame(pa.Table.from_batches(batches))
    now = F.lit(NOON).cast("timestamp")
    found = validate(frame, now).select("kind", "offset", "reason").collect()
    names = list(CASES)
    contexts = {r.reason for r in found if r.kind == 1}
    assert contexts == {None}
    assert [r.reason for r in found if r.kind == 2] == ["no JSON"]
    return {names[r.offset]: r.reason for r in found if r.kind == 0}


@pytest.fixture(scope="module")
def reasons() -> dict[str, str | None]:
    return checked()


@pytest.mark.parametrize("name", CASES)
def test_a_reading_is_refused_for_a_reason_only(name: str, reasons: dict[str, str | None]) -> None:
    expected = CASES[name][1]
    found = reasons[name]
    assert found is None if expected is None else expected in (found or "")
