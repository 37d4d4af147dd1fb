"""Every way in which files write a time, and what is refused."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from nexus.telemetry.csv.times import (
    IN_THE_FUTURE,
    NOT_A_TIME,
    TOO_OLD,
    parse_times,
)

NOW_US = 1_800_000_000_000_000  # 2027-01-15T08:00:00Z


def parsed(*texts: str) -> list[datetime | str]:
    times = parse_times(pa.array(texts, pa.string()), NOW_US)
    both = zip(times.values.to_pylist(), times.reasons.to_pylist(), strict=True)
    return [value if reason is None else reason for value, reason in both]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2024-01-01T12:00:01Z", 0),
        ("2024-01-01T14:00:01+02:00", 0),
        ("2024-01-01T08:30:01-03:30", 0),
        ("2024-01-01T08:30:01.5-0330", 500_000),
        ("2024-01-01T12:00:01.123456Z", 123_456),
        ("2024-01-01T12:00:01.123456789Z", 123_456),
        ("2024-01-01 12:00:01", 0),
        ("2024-01-01 12:00:01.25", 250_000),
        ("2024/01/01 12:00:01.250", 250_000),
        ("2024-01-01T12:00:01", 0),
        ("1704110401", 0),
        ("1704110401.25", 250_000),
        (" 1704110401.123456 ", 123_456),
        ("1.704110401e9", 0),
    ],
)
def test_a_time_is_read(text: str, micros: int) -> None:
    expected = datetime(2024, 1, 1, 12, 0, 1, micros, tzinfo=UTC)
    assert parsed(text) == [expected]
    # The same in the company of texts that rule the short cuts out.
    assert parsed(text, "nonsense", "1704110401") == [
        expected,
        NOT_A_TIME,
        datetime(2024, 1, 1, 12, 0, 1, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "yesterday", "2024-01-01", "12:00:01", "-1704110401", "1704110401000"),
        *("2024-02-31T00:00:00Z", "2024-13-01T00:00:00Z", "2024-01-01T25:00:00Z"),
        *("2024-01-01T12:00:01+1", "nan", "inf", "1e400", "\x00", "timestamp"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    assert parsed(text) == [NOT_A_TIME]


def test_a_time_is_refused_before_2000_and_ten_minutes_ahead() -> None:
    assert parsed("1999-12-31T23:59:59.999999Z", "2000-01-01T00:00:00Z") == [
        TOO_OLD,
        datetime(2000, 1, 1, tzinfo=UTC),
    ]
    assert parsed("2027-01-15T08:10:00Z", "2027-01-15T08:10:00.000001Z") == [
        datetime(2027, 1, 15, 8, 10, tzinfo=UTC),
        IN_THE_FUTURE,
    ]
    assert parsed("0", "99999999999") == [TOO_OLD, IN_THE_FUTURE]


def test_no_texts_are_no_times() -> None:
    assert parsed() == []
