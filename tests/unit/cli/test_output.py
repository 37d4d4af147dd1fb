"""Tables, JSON and text that came from elsewhere."""

import sys

import pytest

from nexus.cli.output import Failures, print_json, print_table, printable


def pretend_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")


def test_numbers_align_to_the_right_and_absence_is_a_dash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("topic", "messages"), [("a", 5), ("long-name", 12345), ("c", None)])
    assert capsys.readouterr().out == (
        "TOPIC      MESSAGES\na                 5\nlong-name     12345\nc                 -\n"
    )


def test_a_terminal_gets_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_terminal(monkeypatch)
    print_table(("topic", "messages"), [("[bold]a", 5)])
    out = capsys.readouterr().out
    assert "─" in out or "━" in out
    assert "[bold]a" in out


def test_a_table_without_rows_still_has_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "total lag"), [])
    assert capsys.readouterr().out == "A  TOTAL-LAG\n"


def test_json_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, "ü"]})
    assert capsys.readouterr().out == '{"a": [1, "ü"]}\n'


def test_json_on_a_terminal_is_indented(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_terminal(monkeypatch)
    print_json({"a": 1})
    assert capsys.readouterr().out == '{\n  "a": 1\n}\n'


def test_text_from_elsewhere_cannot_steer_the_terminal() -> None:
    assert printable("plain ü") == "plain ü"
    assert printable("a\x1b[31mb\r\n") == "a\\x1b[31mb\\r\\n"


def test_failures_are_lines_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    failures = Failures()
    assert failures.exit_code == 0
    failures.add("topic t: gone")
    assert failures.exit_code == 1
    assert capsys.readouterr().err == "nexus: topic t: gone\n"
