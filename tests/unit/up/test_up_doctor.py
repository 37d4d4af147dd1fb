"""The doctor's checks: what is well, what is not, and what to do about it."""

from __future__ import annotations

import json
import os
import resource
import socket
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest

from nexus.cli.entry import run
from nexus.pipeline.collector.java import NoJava
from nexus.queue.errors import QueueAway, TopicMissing
from nexus.up.asking import Answer, ask
from nexus.up.doctor.clock_checks import check_clock, date_of, is_synchronised, last_written
from nexus.up.doctor.findings import Finding, Level
from nexus.up.doctor.machine_checks import (
    available_memory,
    check_disk,
    check_files,
    check_java,
    check_memory,
    check_python,
)
from nexus.up.doctor.place_checks import check_dashboard, check_data_dir, check_format
from nexus.up.doctor.reach_checks import check_part, check_port, check_queue
from nexus.up.ports import Address
from support.ports import free_port

GB = 1 << 30


def said(finding: Finding) -> tuple[str, str]:
    """How bad it is and what was found; whoever finds fault says what to do."""
    assert bool(finding.advice) == (finding.level is not Level.OK)
    return finding.level.value, finding.found


# The machine


def test_an_old_python_is_a_problem_and_another_system_a_warning() -> None:
    assert said(check_python((3, 11, 7), "linux")) == ("ok", "Python 3.11.7")
    assert said(check_python((3, 9, 1), "linux")) == ("problem", "Python 3.9.1")
    assert said(check_python((3, 12, 0), "darwin"))[0] == "warning"


def test_missing_java_is_told_with_what_to_install() -> None:
    def missing() -> str:
        raise NoJava("there is none: install Java 17")

    finding = check_java(missing)
    assert said(finding) == ("problem", "there is none")
    assert finding.advice == "install Java 17"
    assert said(check_java(lambda: "Java 17")) == ("ok", "Java 17")


@pytest.mark.parametrize(
    ("free", "level"), [(GB // 2, "problem"), (5 * GB, "warning"), (50 * GB, "ok")]
)
def test_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str
) -> None:
    asked: list[Path] = []

    def usage(place: Path) -> SimpleNamespace:
        asked.append(place)
        return SimpleNamespace(free=free)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert said(check_disk(tmp_path / "not" / "yet"))[0] == level
    assert asked == [tmp_path]


@pytest.mark.parametrize(
    ("available", "level"),
    [(None, "warning"), (GB, "problem"), (2 * GB, "warning"), (4 * GB, "ok")],
)
def test_memory(available: int | None, level: str) -> None:
    assert said(check_memory(available))[0] == level


def test_a_container_may_have_less_memory_than_its_machine(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    8000 kB\n")
    assert available_memory(tmp_path, tmp_path) == 8000 * 1024
    (tmp_path / "memory.max").write_text("4096000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 5\nfile 2000000\n")
    assert available_memory(tmp_path, tmp_path) == 4096000 - 3000000 + 2000000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path, tmp_path) == 8000 * 1024
    assert available_memory(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(
    ("hard", "level"),
    [(512, "problem"), (4096, "warning"), (20_000, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_open_files(hard: int, level: str) -> None:
    assert said(check_files((256, hard), 11_024))[0] == level


# The clock


def test_a_clock_that_nobody_keeps_is_a_warning() -> None:
    assert said(check_clock(1000.0, True, None, {}))[0] == "ok"
    assert said(check_clock(1000.0, None, 900.0, {"http://a": 1004.0}))[0] == "ok"
    assert said(check_clock(1000.0, False, None, {}))[0] == "warning"
    assert is_synchronised() in (True, False, None)


def test_a_clock_that_went_back_is_noticed_by_the_tables(tmp_path: Path) -> None:
    log = tmp_path / "readings" / "_delta_log"
    log.mkdir(parents=True)
    assert last_written(tmp_path) is None
    for number, at in enumerate((5000, 4000)):
        (log / f"{number:020d}.json").touch()
        os.utime(log / f"{number:020d}.json", (at, at))
    assert last_written(tmp_path) == 5000
    found = said(check_clock(1000.0, True, 5000.0, {}))
    assert found == ("warning", "the tables were written 4,000 s in the future")


def test_a_clock_apart_from_anothers_is_told_with_how_far() -> None:
    theirs = date_of({"date": formatdate(1_700_000_000, usegmt=True)})
    assert theirs == 1_700_000_000
    assert date_of({}) is None
    assert date_of({"date": "soon"}) is None
    level, found = said(check_clock(theirs + 90, True, None, {"http://a": theirs}))
    assert (level, found) == ("warning", "-90 s apart from http://a")


# The place


def test_whose_the_directory_is(tmp_path: Path) -> None:
    assert said(check_data_dir(tmp_path / "x", None)) == ("ok", f"{tmp_path / 'x'} (to be made)")
    assert "process 7" in said(check_data_dir(tmp_path, {"process": 7}))[1]
    (tmp_path / "file").touch()
    assert said(check_data_dir(tmp_path / "file" / "x", None))[0] == "problem"


@pytest.mark.parametrize(
    ("meta", "level"),
    [
        (None, "ok"),
        ({"format_version": 1}, "ok"),
        ({"format_version": 99}, "problem"),
        (3, "problem"),
    ],
)
def test_a_format_from_the_future_is_a_problem(tmp_path: Path, meta: object, level: str) -> None:
    if meta is not None:
        (tmp_path / "meta.json").write_text(json.dumps(meta))
    assert said(check_format(tmp_path))[0] == level


def test_a_dashboard_that_is_not_built_is_a_warning(tmp_path: Path) -> None:
    finding = check_dashboard(tmp_path)
    assert (finding.level, finding.advice) == (Level.WARNING, "make web")
    (tmp_path / "index.html").touch()
    assert said(check_dashboard(tmp_path))[0] == "ok"


# Who answers


def test_a_taken_port_is_told_with_who_has_it_and_the_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("the dashboard", "127.0.0.1", server.getsockname()[1], "--port")
        finding = check_port(address)
        assert said(finding)[0] == "problem"
        assert f"process {os.getpid()} (" in finding.found
        assert "--port" in finding.advice
    assert said(check_port(address))[0] == "ok"


def test_a_part_is_well_or_not_ready_or_silent() -> None:
    def answering(code: int, **body: object) -> Finding:
        return check_part("gateway", "http://web:1/ready", lambda url: Answer(code, body, {}))

    assert said(answering(200)) == ("ok", "well at http://web:1")
    assert said(answering(200, ready=False, status="standing by"))[0] == "warning"
    level, found = said(answering(503, problem="the store is away"))
    assert (level, found.rpartition(": ")[2]) == ("warning", "the store is away")
    silent = check_part("gateway", f"http://127.0.0.1:{free_port()}/ready", ask)
    assert said(silent)[0] == "problem"
    assert "refused" in silent.found


def test_a_queue_answers_or_lacks_its_topic_or_is_away() -> None:
    def fails(error: Exception) -> Finding:
        def partitions() -> list[int]:
            raise error

        return check_queue("kafka://b:1/t", partitions)

    assert said(check_queue("kafka://b:1/t", lambda: [0, 1]))[1].endswith("2 partitions")
    assert said(fails(TopicMissing("no")))[0] == "warning"
    assert said(fails(QueueAway("no broker answers"))) == ("problem", "no broker answers")


def test_an_address_that_is_none_is_an_answer_too() -> None:
    assert ask("http://127.0.0.1:x/").status == 0


# The command


def test_a_problem_is_exit_status_1_and_in_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    words = ["doctor", "--data-dir", str(tmp_path / "data"), "--gateway-url", url]
    assert run([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    levels = {f["check"]: f["level"] for f in document["findings"]}
    assert levels["gateway"] == "problem"
    assert {"python", "java", "disk", "memory", "open files", "clock", "format"} <= levels.keys()
    assert run(words) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("problem  gateway") for line in lines)
    assert "problems" in lines[-1]
