"""Sizes and durations: every unit, what is refused, and that writing and reading agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.settings.units import format_duration, format_size, parse_duration_ms, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("7B", 7),
        ("1KB", 1024),
        ("100KB", 102_400),
        ("1MB", 1 << 20),
        ("1GB", 1 << 30),
        ("2TB", 2 << 40),
        ("1PB", 1 << 50),
        ("1GiB", 1 << 30),
        ("1G", 1 << 30),
        ("1 gb", 1 << 30),
        ("1.5KB", 1536),
    ],
)
def test_a_size_is_a_binary_multiple(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "-1GB", "1XB", "1.5", "1e9", "\u0661KB", "1" * 40, "1GB2"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("5ms", 5),
        ("1s", 1_000),
        ("1.5s", 1_500),
        ("10m", 600_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("1h30m", 5_400_000),
        ("10 S", 10_000),
    ],
)
def test_a_duration_has_its_unit(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "10", "h", "-5s", "5 years", "1.5ms", "1us"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_duration_ms(text)


@given(st.integers(0, 1 << 60))
def test_a_size_is_read_back_as_it_was_written(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 1 << 50))
def test_a_duration_is_read_back_as_it_was_written(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration(duration_ms)) == duration_ms


def test_the_shortest_exact_form_is_written() -> None:
    assert [format_size(n) for n in (0, 1, 1536, 102_400, 10 << 30)] == [
        "0",
        "1",
        "1536",
        "100KB",
        "10GB",
    ]
    assert [format_duration(n) for n in (-1, 0, 5, 1_500, 60_000, 86_400_000, 604_800_000)] == [
        "-1",
        "0",
        "5ms",
        "1500ms",
        "1m",
        "24h",
        "7d",
    ]
