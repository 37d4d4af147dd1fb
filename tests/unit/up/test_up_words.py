"""What is told: one line each, for people and for programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nexus.up.events import Died, Ended, Notice, Over, Overdue, Settled, Slow, Stopping, WasReady
from nexus.up.machine import Part, Phase, house_of
from nexus.up.runner import Program
from nexus.up.summary import Summary, Tally
from nexus.up.watch import Sight, seen
from nexus.up.words import Facts, how, line_of, object_of, size, status_line

PROGRAM = Program(Part("collector"), ("x",), "http://x/", Path("d/logs/collector.log"), "to tables")
FACTS = Facts({"collector": PROGRAM}, "http://127.0.0.1:8080", "d/logs", lambda name: "no Java")


@pytest.mark.parametrize(
    ("notice", "line"),
    [
        (WasReady("collector", 9.84), "collector ready in 9.8 s: to tables"),
        (WasReady("collector", 3.0, again=True), "collector is back after 3.0 s"),
        (Slow("collector", 45.0), "collector is not ready after 45 s; see d/logs/collector.log"),
        (
            Died("collector", 1, 1, 0.5),
            "collector died (exit status 1: no Java); starting it again in 0.5 s;"
            " log d/logs/collector.log",
        ),
        (
            Died("collector", -9, 3, 2.0),
            "collector died (killed by SIGKILL, perhaps for want of memory), the 3. time in a row;"
            " starting it again in 2 s; log d/logs/collector.log",
        ),
        (Ended("collector", asked=True), "collector stopped"),
        (Ended("collector", asked=False), "collector is done: no Java"),
        (
            Overdue("collector"),
            "collector did not stop in its time and was killed; it will recover",
        ),
        (Stopping(15.0), "stopping, within 15 s; Ctrl-C again hurries"),
        (
            Settled(),
            "dashboard: http://127.0.0.1:8080   (Ctrl-C stops everything; logs in d/logs)",
        ),
    ],
)
def test_each_notice_is_one_line(notice: Notice, line: str) -> None:
    told = line_of(notice, FACTS)
    assert told is not None
    assert told[0] == line


def test_who_is_not_ready_is_named_beside_the_address() -> None:
    told = line_of(Settled(("collector",)), FACTS)
    assert told is not None
    assert "8080; not ready yet: collector" in told[0]


def test_programs_get_the_same_as_objects() -> None:
    assert line_of(Over(), FACTS) is None
    assert object_of(WasReady("collector", 1.5), FACTS) == {
        "event": "ready",
        "name": "collector",
        "seconds": 1.5,
        "again": False,
    }
    died = object_of(Died("collector", 1, 1, 0.5), FACTS)
    assert (died["event"], died["status"], died["why"]) == ("died", 1, "no Java")
    assert died["log"] == "d/logs/collector.log"
    assert object_of(Settled(), FACTS)["dashboard"] == "http://127.0.0.1:8080"


def test_a_status_in_words() -> None:
    assert [how(s) for s in (None, 0, 3, -11, -200)] == [
        "it could not be started",
        "exit status 0",
        "exit status 3",
        "killed by SIGSEGV",
        "killed by signal 200",
    ]


def test_the_live_line_says_how_it_goes() -> None:
    house = house_of([Part("broker"), Part("gateway"), Part("collector")])
    house = house.changed("broker", phase=Phase.READY).changed("gateway", phase=Phase.RESTING)
    sight = seen(
        Sight(memory_bytes=3 << 29), {"readings": 12_345, "rate": 640.2, "lag_messages": 3}
    )
    assert status_line(sight, house) == (
        "starting collector  ·  12,345 readings stored  ·  640/s  ·  3 messages wait"
        "  ·  1.50 GB of memory  ·  down: gateway"
    )


def test_a_collector_that_says_nothing_leaves_no_old_numbers() -> None:
    sight = seen(Sight(readings=5, rate=1.0, memory_peak_bytes=7), {})
    assert (sight.readings, sight.rate, sight.memory_peak_bytes) == (None, None, 7)


def test_what_was_stored_is_added_up_over_restarts_of_the_collector() -> None:
    sight = Sight()
    for said in ({"readings": 5}, {"readings": 9}, {}, {"readings": 2}, {"readings": 4}, {}):
        sight = seen(sight, said)
    assert sight.stored == 13


def test_the_summary_for_people_and_for_programs() -> None:
    house = house_of([Part("broker"), Part("collector")])
    house = house.changed("collector", restarts=2, ready_s=9.8765)
    sight = Sight(memory_peak_bytes=5 << 29, rows_after_s=21.4321)
    summary = Summary(60.0, 4.21, house, sight, Tally(38_400, 33))
    assert list(summary.lines()) == [
        "stopped in 4.2 s after a run of 60 s",
        "38,400 readings stored, 33 GPUs seen, restarts: collector 2,"
        " at most 2.50 GB of memory (PSS)",
    ]
    said = summary.document()
    assert (said["readings_stored"], said["gpus"], said["restarts"]) == (38_400, 33, 2)
    assert (said["first_rows_seconds"], said["peak_memory_pss_bytes"]) == (21.432, 5 << 29)
    assert said["parts"]["collector"] == {
        "ready_seconds": 9.877,
        "restarts": 2,
        "killed_at_stop": False,
    }


def test_what_is_not_known_is_left_out() -> None:
    summary = Summary(1.0, 0.0, house_of([Part("broker")]), Sight(), Tally())
    assert list(summary.lines())[1] == "no restarts"
    assert summary.document()["readings_stored"] is None


def test_sizes_for_people() -> None:
    assert (size(5 << 20), size(1 << 30)) == ("5 MB", "1.00 GB")


def test_the_last_line_has_the_proxys_address_where_there_is_one() -> None:
    facts = replace(FACTS, proxy="http://127.0.0.1:8088")
    line, _ = line_of(Settled(), facts) or ("", "")
    assert line.startswith("dashboard: http://127.0.0.1:8080; proxy: http://127.0.0.1:8088 ")
    assert object_of(Settled(), facts)["proxy"] == "http://127.0.0.1:8088"
