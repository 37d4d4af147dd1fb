"""Times, offsets and payloads between people and machines."""

import pytest

from nexus.cli.kafka import Bounds
from nexus.cli.moments import format_moment, parse_moment
from nexus.cli.payload import as_json, as_text
from nexus.cli.starts import pick
from nexus.settings import SettingsError

NOW_MS = 1_752_871_354_000


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1752871354000", 1_752_871_354_000),
        ("2025-07-18T20:42:34Z", 1_752_871_354_000),
        ("2025-07-18T20:42:34", 1_752_871_354_000),
        ("2025-07-18T22:42:34.500+02:00", 1_752_871_354_500),
        ("1h", NOW_MS - 3_600_000),
        ("500ms", NOW_MS - 500),
    ],
)
def test_a_point_in_time_is_written_in_several_ways(text: str, moment_ms: int) -> None:
    assert parse_moment(text, "--from", NOW_MS) == moment_ms


def test_what_is_no_time_is_refused_with_examples() -> None:
    with pytest.raises(SettingsError, match=r'flag --from: found "soon", expected a time such as'):
        parse_moment("soon", "--from", NOW_MS)


def test_times_are_shown_in_utc_with_milliseconds() -> None:
    assert format_moment(1_752_871_354_123) == "2025-07-18T20:42:34.123Z"
    assert format_moment(-1) is None
    assert format_moment(2**62) is None


@pytest.mark.parametrize(
    ("what", "number", "offset"),
    [
        ("beginning", 0, 10),
        ("end", 0, 20),
        ("last", 3, 17),
        ("last", 99, 10),
        ("offset", 15, 15),
        ("offset", 5, 10),
        ("offset", 99, 20),
    ],
)
def test_a_start_is_always_an_offset_that_exists(what: str, number: int, offset: int) -> None:
    assert pick(Bounds(10, 20), what, number) == offset


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", ""),
        (b'{"a":1}', '{"a":1}'),
        ("ü".encode(), "ü"),
        (b"a\x1b[0m\n", "a\\x1b[0m\\n"),
        (b"\xff\x00\x01", "<3 bytes: ff0001>"),
        (b"\x00" * 30, "<30 bytes: " + "00" * 24 + "…>"),
    ],
)
def test_a_payload_is_one_readable_line(data: bytes | None, text: str) -> None:
    assert as_text(data) == text


def test_an_arrow_payload_says_how_many_readings_it_has() -> None:
    headers = [("content-type", b"application/vnd.apache.arrow.stream"), ("count", b"500")]
    assert as_text(b"\xff" * 9, headers) == "<500 readings, arrow, 9 bytes>"


def test_json_keeps_every_byte() -> None:
    assert [as_json(d) for d in (None, b"a\n", b"\xff")] == [None, "a\n", {"base64": "/w=="}]
