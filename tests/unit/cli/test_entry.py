"""The entry point: what is imported when, exit codes, and errors in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from nexus import __version__
from nexus.cli.entry import run

HEAVY = (
    "confluent_kafka",
    "typer",
    "pydantic",
    "rich.table",
    "yaml",
    "prometheus_client",
    "uvloop",
)


def imported_by(statement: str) -> set[str]:
    """The heavy modules that a fresh interpreter has after a statement."""
    probe = f"import sys\n{statement}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    command = [sys.executable, "-c", probe]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_command_imports_nothing_heavy() -> None:
    assert imported_by("import nexus.cli") == set()


def test_reading_the_brokers_settings_needs_no_client_and_no_tables() -> None:
    statement = (
        "import nexus.cli.plain as p, nexus.settings as s\n"
        "assert p.plain_broker_call(['broker', '--fsync', 'never'])\n"
        "s.load_broker_settings(environ={})"
    )
    assert imported_by(statement) == set()


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"nexus {__version__}\n"


@pytest.mark.parametrize("command", ["broker", "topics", "groups", "config"])
def test_help_lists_every_command(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(["--help"]) == 0
    assert command in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["up"],
        ["doctor"],
        ["broker"],
        ["config", "show"],
        *(
            ["topics", c]
            for c in ("list", "create", "delete", "describe", "alter", "verify", "tail")
        ),
        *(["groups", c] for c in ("list", "describe", "reset", "delete")),
    ],
)
def test_every_commands_help_has_examples(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Examples:" in out
    assert f"nexus {' '.join(command)}" in out


@pytest.mark.parametrize("command", [[], ["topics"], ["groups"]])
def test_a_group_without_a_command_explains_itself_and_fails(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run(command) == 2
    assert "Usage: nexus" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["brokr"], "No such command 'brokr'. Did you mean 'broker'? (see nexus --help)"),
        (
            ["topics", "lst"],
            "No such command 'lst'. Did you mean 'list'? (see nexus topics --help)",
        ),
        (["topics", "create"], "Missing argument 'TOPIC…' (see nexus topics create --help)"),
        (["broker", "--listen", "9092"], 'flag --listen: found "9092", expected host:port such as'),
        (["broker", "--fsync", "x"], 'flag --fsync: storage.fsync: found "x", expected one of'),
        (["broker", "--set", "storage.fsyn=x"], "flag --set: storage.fsyn: unknown key; did you"),
        (
            ["broker", "--set", "zz=1"],
            "flag --set: zz: unknown key; `nexus config show` lists them",
        ),
        (["broker", "--set", "zz"], 'flag --set: found "zz", expected SECTION.KEY=VALUE'),
        (["broker", "--config", "/none.yaml"], "/none.yaml: cannot be read: No such file"),
        (["topics", "alter", "t"], "nothing to change: give --partitions, --config or --unset"),
        (["topics", "create", "t", "-c", "x"], 'flag --config: found "x", expected KEY=VALUE'),
        (["topics", "verify", "--data-dir", "/none"], "/none: is not a broker's data directory"),
        (["groups", "reset", "g"], "give one of --to-earliest, --to-latest, --to-offset"),
        (["groups", "reset", "g", "--to-time", "soon"], 'flag --to-time: found "soon", expected a'),
        (["topics", "list", "--bootstrap", "x"], 'flag --bootstrap: found "x", expected host:port'),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], command: list[str], line: str
) -> None:
    assert run(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"nexus: {line}")


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "list"],
        ["topics", "tail", "t"],
        ["topics", "verify"],
        ["groups", "describe", "g"],
    ],
)
def test_an_absent_broker_is_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run([*command, "--bootstrap", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        "nexus: no broker at 127.0.0.1:1 (connection refused); start one with `nexus broker`,"
        " or name another with --bootstrap HOST:PORT\n"
    )


def test_ctrl_c_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nexus.settings.load_broker_settings", interrupted)
    assert run(["broker"]) == 130


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    nexus = Path(sys.executable).with_name("nexus")
    with errors.open("w") as stderr:
        subprocess.run(f"{nexus} config show | true", shell=True, stderr=stderr, check=True)
    assert errors.read_text() == ""


def test_threads_that_are_left_neither_hold_up_the_end_nor_change_the_code() -> None:
    program = """
import sys, threading
from nexus.cli import entry
def command(arguments):
    threading.Thread(target=threading.Event().wait).start()
    print("said")
    return 3
entry._dispatch = command
entry.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "said\n", "")
