"""The runner with stand-ins for the parts: real processes, real signals, real probes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from nexus.up.events import (
    Died,
    Ended,
    Notice,
    Over,
    Overdue,
    Settled,
    Stopping,
    WasReady,
)
from nexus.up.machine import Part, Rules
from nexus.up.runner import Program, Runner
from support import standin
from support.ports import free_port
from support.waiting import wait_until

STANDIN = standin.__file__
RULES = Rules(restart_s=0.05, restart_max_s=0.2, stop_s=3.0)


class Stage:
    """A runner whose parts are stand-ins, and what it told."""

    def __init__(self, folder: Path, rules: Rules = RULES) -> None:
        self.folder, self.rules = folder, rules
        self.told: list[Notice] = []
        self.programs: list[Program] = []
        self.runner: Runner | None = None

    def add(self, part: Part, *manners: str) -> Program:
        port = free_port()
        python = (sys.executable, "-I", "-S", STANDIN, str(port), *manners)
        log = self.folder / f"{part.name}.log"
        program = Program(part, python, f"http://127.0.0.1:{port}/", log)
        self.programs.append(program)
        return program

    def play(self, script: Callable[[Runner], None] | None = None) -> list[Notice]:
        """Run until the end; `script` is called after each notice."""

        def tell(notice: Notice) -> None:
            self.told.append(notice)
            assert self.runner is not None
            (script or self.stop_when_settled)(self.runner)

        async def run() -> None:
            self.runner = Runner(self.programs, self.rules, tell)
            await asyncio.wait_for(self.runner.run(), 30)

        asyncio.run(run())
        return self.told

    def stop_when_settled(self, runner: Runner) -> None:
        if isinstance(self.told[-1], Settled):
            runner.stop()

    def kinds(self) -> list[tuple[str, str]]:
        return [(type(n).__name__, getattr(n, "name", "")) for n in self.told]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "logs")


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def test_parts_become_ready_and_end_in_order(stage: Stage) -> None:
    stage.add(Part("broker", stop_by=0.9))
    stage.add(Part("streamer", needs=("broker",), stop_by=0.2))
    stage.play()
    assert stage.kinds() == [
        ("WasReady", "broker"),
        ("WasReady", "streamer"),
        ("Settled", ""),
        ("Stopping", ""),
        ("Ended", "streamer"),
        ("Ended", "broker"),
        ("Over", ""),
    ]


def test_what_a_part_says_is_in_its_log(stage: Stage) -> None:
    program = stage.add(Part("broker"))
    stage.play()
    lines = program.log.read_text().splitlines()
    assert "started: " in lines[0]
    assert lines[1:] == ["I am here", "goodbye"]


def test_a_part_that_is_killed_comes_back(stage: Stage) -> None:
    stage.add(Part("broker"))

    def script(runner: Runner) -> None:
        match stage.told[-1]:
            case Settled():
                os.kill(runner.pids["broker"], signal.SIGKILL)
            case WasReady(again=True):
                runner.stop()

    stage.play(script)
    assert Died("broker", -9, deaths=1, again_s=0.05) in stage.told
    assert stage.told[-1] == Over()


def test_a_part_that_keeps_dying_says_why_and_leaves_the_others_alone(stage: Stage) -> None:
    stage.add(Part("broker"))
    stage.add(Part("gateway"), "fails", "3")

    def script(runner: Runner) -> None:
        if stage.told[-1] == Died("gateway", 3, deaths=4, again_s=0.2):
            assert runner.logs["gateway"].last_words() == "it cannot be"
            assert is_alive(runner.pids["broker"])
            runner.stop()

    stage.play(script)
    assert [n for n in stage.told if isinstance(n, Died) and n.name == "broker"] == []


def test_a_part_whose_work_is_done_is_let_go(stage: Stage) -> None:
    stage.add(Part("streamer", may_end=True), "done")
    stage.play()
    assert stage.told[0] == Ended("streamer", asked=False)


def test_a_part_that_does_not_listen_is_killed_in_time(stage: Stage) -> None:
    stage.add(Part("collector", stop_by=0.1), "deaf")
    stage.add(Part("broker", stop_by=0.9))
    stage.play()
    at = stage.told.index(Stopping(3.0))
    assert stage.told[at + 1 :] == [
        Overdue("collector"),
        Ended("collector", asked=True),
        Ended("broker", asked=True),
        Over(),
    ]


def test_a_second_stop_does_not_wait_for_the_first(stage: Stage) -> None:
    stage.rules = Rules(stop_s=3600.0)
    stage.add(Part("collector", stop_by=0.5), "deaf")
    stage.add(Part("broker", stop_by=0.9))

    def script(runner: Runner) -> None:
        if isinstance(stage.told[-1], Settled | Stopping):
            runner.stop()

    stage.play(script)
    assert stage.told[-1] == Over()


def test_a_program_that_is_not_there_is_a_death_like_any_other(stage: Stage) -> None:
    log = stage.folder / "x.log"
    stage.programs.append(Program(Part("x"), ("/no/such/program",), "http://127.0.0.1:1/", log))

    def script(runner: Runner) -> None:
        runner.stop()

    stage.play(script)
    assert isinstance(stage.told[0], Died)
    assert "No such file" in log.read_text()


def test_when_nobody_reads_its_words_it_ends_in_order(stage: Stage) -> None:
    stage.add(Part("broker"))

    def script(runner: Runner) -> None:
        raise BrokenPipeError

    stage.play(script)
    assert stage.runner is not None
    assert stage.runner.house.is_over


def test_an_error_of_our_own_leaves_nobody_behind(stage: Stage) -> None:
    stage.add(Part("broker"), "deaf")
    seen: dict[str, int] = {}

    def script(runner: Runner) -> None:
        seen.update(runner.pids)
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        stage.play(script)
    wait_until(lambda: not is_alive(seen["broker"]), what="the end of the part")


def test_a_killed_parent_takes_its_parts_with_it(stage: Stage, tmp_path: Path) -> None:
    program = stage.add(Part("broker"), "deaf")
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from nexus.up.machine import Part, Rules\n"
        "from nexus.up.runner import Program, Runner\n"
        f"program = Program(Part('broker'), {program.command!r}, {program.probe!r},"
        f" Path({str(program.log)!r}))\n"
        "def tell(notice):\n"
        "    print(runner.pids['broker'], flush=True)\n"
        "async def run():\n"
        "    global runner\n"
        "    runner = Runner([program], Rules(), tell)\n"
        "    await runner.run()\n"
        "asyncio.run(run())\n"
    )

    async def story() -> int:
        parent = await asyncio.create_subprocess_exec(
            sys.executable, str(script), stdout=asyncio.subprocess.PIPE
        )
        assert parent.stdout is not None
        pid = int(await asyncio.wait_for(parent.stdout.readline(), 30))
        assert is_alive(pid)
        parent.kill()
        await parent.wait()
        return pid

    pid = asyncio.run(story())
    wait_until(lambda: not is_alive(pid), within=15, what="the end of the orphan")
