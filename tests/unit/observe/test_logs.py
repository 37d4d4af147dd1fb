"""Logs are for people on a terminal and for machines elsewhere, and never get in the way."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.observe.logs import HumanFormatter, JsonFormatter, configure, get_logger

log = get_logger("nexus.log.segment")


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_file_gets_one_json_object_a_line() -> None:
    stream = io.StringIO()
    configure("info", stream)
    log.info("segment rolled", topic="t", partition=3)
    [entry] = lines(stream)
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "level": "info",
        "logger": "nexus.log.segment",
        "message": "segment rolled",
        "topic": "t",
        "partition": 3,
    }


def test_a_terminal_gets_a_line_for_people() -> None:
    stream = Terminal()
    configure("info", stream)
    log.info("segment rolled", topic="t", partition=3)
    _, _, rest = stream.getvalue().partition(" ")
    assert rest == "INFO    log.segment: segment rolled topic=t partition=3\n"


def test_a_real_terminal_gets_colour_for_warnings() -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal, os.fdopen(leader, "rb", 0) as screen:
        configure("info", terminal)
        log.warning("disk is nearly full")
        shown = screen.read(1024)
    assert b"\x1b[33m" in shown
    assert b"disk is nearly full\x1b[0m" in shown


def test_the_form_can_be_chosen() -> None:
    terminal, file = Terminal(), io.StringIO()
    configure("info", terminal, "json")
    log.info("for a machine")
    configure("info", file, "human")
    log.warning("for a person")
    assert lines(terminal)[0]["message"] == "for a machine"
    assert file.getvalue().endswith("WARNING log.segment: for a person\n")


def test_what_lies_below_the_level_is_not_written() -> None:
    stream = io.StringIO()
    configure("warning", stream)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [entry["message"] for entry in lines(stream)] == ["c", "d"]


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("info", first)
    configure("info", second)
    log.info("once")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1


def test_bound_fields_are_on_every_line() -> None:
    stream = io.StringIO()
    configure("info", stream)
    log.bind(topic="t").info("rolled", partition=1)
    [entry] = lines(stream)
    assert (entry["topic"], entry["partition"]) == ("t", 1)


def test_an_exception_carries_its_traceback() -> None:
    stream = io.StringIO()
    configure("info", stream)
    try:
        raise OSError("the disk is gone")
    except OSError:
        log.exception("flush failed", topic="t")
    [entry] = lines(stream)
    assert entry["level"] == "error"
    assert entry["error"].endswith("OSError: the disk is gone")


def test_a_field_cannot_take_the_place_of_the_message() -> None:
    stream = io.StringIO()
    configure("info", stream)
    log.info("the real one", message="a field", level=9)
    [entry] = lines(stream)
    assert (entry["message"], entry["level"]) == ("the real one", "info")
    assert (entry["message_"], entry["level_"]) == ("a field", 9)


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_value_that_has_no_text_does_not_raise(stream: io.StringIO) -> None:
    configure("info", stream)
    log.info("odd", value=Unprintable(), keys={(1, 2): "x"}, path=Path("/d"))
    assert "Unprintable" in stream.getvalue()
    assert "/d" in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_clients_text_cannot_forge_a_line_or_drive_the_terminal(stream: io.StringIO) -> None:
    configure("info", stream)
    log.info("client\nforged", client_id='x\n12:00 ERROR "disk\x1b[2J lost"')
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_a_stream_that_is_closed_does_not_stop_the_work() -> None:
    stream = io.StringIO()
    configure("info", stream)
    stream.close()
    log.info("into the void")


def test_a_stream_closed_before_is_taken_for_a_file() -> None:
    stream = io.StringIO()
    stream.close()
    configure("info", stream)
    log.info("into the void")


def test_other_libraries_logs_come_out_in_the_same_form() -> None:
    stream = io.StringIO()
    configure("info", stream)
    logging.getLogger("asyncio").warning("took %d ms", 120)
    assert [entry["message"] for entry in lines(stream)] == ["took 120 ms"]


def test_a_librarys_bad_format_string_is_written_as_it_stands() -> None:
    record = logging.LogRecord("lib", logging.ERROR, "", 0, "took %d ms", ("long",), None)
    assert json.loads(JsonFormatter().format(record))["message"] == "took %d ms"


def test_a_person_sees_the_traceback_under_the_line() -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        exc_info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("nexus.x", logging.ERROR, "", 0, "failed", None, exc_info)
    first, *rest = HumanFormatter(colour=False).format(record).splitlines()
    assert first.endswith("x: failed")
    assert rest[-1] == "ValueError: boom"
