"""Each kind of value: what it takes, and what it says would be right."""

import re
from pathlib import Path

import pytest

from nexus.settings.kinds import (
    Choice,
    Directory,
    Duration,
    Flag,
    HostPort,
    Kind,
    Maybe,
    Ratio,
    Size,
    Text,
    TextList,
    Whole,
    split_host_port,
)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Text(), " a ", "a"),
        (Directory(), "./x", Path("x")),
        (Directory(), Path("/y"), Path("/y")),
        (Flag(), True, True),
        (Flag(), "off", False),
        (Flag(), "Yes", True),
        (Whole(1, 9), 9, 9),
        (Whole(1, 9), "9", 9),
        (Ratio(), "0.5", 0.5),
        (Ratio(), 1, 1.0),
        (Size(), 512, 512),
        (Size(), "512", 512),
        (Size(), "1KB", 1024),
        (Size(unlimited=True), -1, -1),
        (Duration(), "1s", 1000),
        (Duration(), 0, 0),
        (Duration(unlimited=True), "-1", -1),
        (Choice(("a", "b")), "A", "a"),
        (TextList(), ["a", "b"], ("a", "b")),
        (TextList(), "a, b", ("a", "b")),
        (HostPort(), "h:1", "h:1"),
        (Maybe(Whole()), None, None),
        (Maybe(Whole()), 3, 3),
    ],
)
def test_a_kind_reads_what_people_write(kind: Kind, raw: object, value: object) -> None:
    assert kind.parse(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (Text("a name"), "", "a name"),
        (Text("a name"), 5, "a name"),
        (Text(), "a\nb", "text"),
        (Directory(), "", 'a directory such as "./data/broker"'),
        (Flag(), "maybe", "true or false"),
        (Flag(), 1, "true or false"),
        (Whole(1, 9), 10, "a whole number from 1 to 9"),
        (Whole(1, 9), True, "a whole number from 1 to 9"),
        (Whole(1, 9), "1.0", "a whole number from 1 to 9"),
        (Ratio(), 2, "a number from 0 to 1"),
        (Ratio(), "x", "a number from 0 to 1"),
        (Ratio(), "nan", "a number from 0 to 1"),
        (Size(), "1XB", "a size such as 1GB or 512KB"),
        (Size(1024), "1", "a size such as 1GB or 512KB, at least 1KB"),
        (Size(0, 1024), "2KB", "a size such as 1GB or 512KB, at most 1KB"),
        (Size(1, unlimited=True), 0, "at least 1, or -1 for no limit"),
        (Duration(), 10, "a duration with its unit, such as 10ms, 10s or 10h"),
        (Duration(), -1, "a duration with its unit"),
        (Duration(1), 0, "a duration such as 24h, 1s or 5ms, at least 1ms"),
        (Duration(), ["1s"], "a duration such as 24h, 1s or 5ms"),
        (Choice(("a", "b")), "c", "one of a, b"),
        (TextList(Text(), "a list"), 5, "a list"),
        (HostPort(), "h", "host:port such as"),
        (HostPort(), 9092, "host:port such as"),
    ],
)
def test_a_kind_says_what_would_be_right(kind: Kind, raw: object, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        kind.parse(raw)


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert split_host_port("[::1]:9092") == ("::1", 9092)
    with pytest.raises(ValueError, match="in brackets"):
        split_host_port("::1:9092")


@pytest.mark.parametrize("text", ["", ":9092", "h:", "h:x", "h:65536", "h:-1", "h:99999999999"])
def test_an_address_needs_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_host_port(text)
