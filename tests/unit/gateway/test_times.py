"""Times as clients write them."""

import re
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.gateway.times import LATEST_US, PATTERN, parse_moment, rfc3339

NOW = 1_752_871_354_000_000  # 2025-07-18T20:42:34Z
MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2025-07-18T20:42:34Z", NOW),
        ("2025-07-18t20:42:34z", NOW),
        ("2025-07-18 20:42:34Z", NOW),
        ("2025-07-18T22:42:34+02:00", NOW),
        ("2025-07-18T22:42:34 02:00", NOW),  # a plus that nobody escaped
        ("2025-07-18T15:12:34-05:30", NOW),
        ("2025-07-18T20:42:34.5Z", NOW + 500_000),
        ("2025-07-18T20:42:34.123456789Z", NOW + 123_456),
        ("1752871354", NOW),
        ("1752871354.25", NOW + 250_000),
        ("1752871354000", NOW),
        ("99999999999", 99_999_999_999_000_000),
        ("100000000000", 100_000_000_000_000),  # milliseconds: March 1973
        ("now", NOW),
        ("now-15m", NOW - 15 * MINUTE),
        ("now+5m", NOW + 5 * MINUTE),
        ("now-1h30m", NOW - 90 * MINUTE),
        ("now-500ms", NOW - 500_000),
        ("now-99999w", 0),
        ("0001-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59.999999Z", LATEST_US),
        ("now+99999w", NOW + 99_999 * 7 * 24 * 60 * MINUTE),
    ],
)
def test_every_form_means_one_moment(text: str, meant: int) -> None:
    assert parse_moment(text).resolve(NOW) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2025-07-18",
        "2025-07-18T20:42:34",  # no offset: whose time?
        "2025-02-30T00:00:00Z",
        "2025-07-18T24:00:01Z",
        "2025-07-18T23:59:60Z",
        "2025-07-18T20:42:34+25:00",
        "now-",
        "now-15",
        "now-15 parsecs",
        "15m",
        "-5",
        "1e9",
        "NaN",
        "1752871354000000000000",
        "٢٠٢٥",
        "now-" + "9" * 500 + "m",
    ],
)
def test_what_is_no_time_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as"):
        parse_moment(text)


@given(st.from_regex(PATTERN, fullmatch=True))
def test_what_the_description_promises_is_understood(text: str) -> None:
    if _is_on_no_calendar(text):
        with pytest.raises(ValueError, match="expected a time such as"):
            parse_moment(text)
    else:
        assert 0 <= parse_moment(text).resolve(NOW) <= LATEST_US


def _is_on_no_calendar(text: str) -> bool:
    """No pattern knows how many days a month has."""
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return re.match(r"\d{4}-\d\d-", text) is not None
    return False


@given(st.integers(0, LATEST_US))
def test_a_written_time_reads_back_as_itself(at: int) -> None:
    text = rfc3339(at)
    assert parse_moment(text).at_us == at
    assert text.endswith("Z")
    assert ("." in text) == (at % 1_000_000 != 0)
    if re.match(r"\d{4}", text):
        assert datetime.fromisoformat(text).astimezone(UTC).year <= 9999
