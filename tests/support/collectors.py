"""A real collector in a process of its own, with its Java machine and its Python workers.

All processes of one start carry a mark in their environment, by which they are found however
they were started and whoever their parent is by now. Only those are ever signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from support.broker import NEXUS
from support.waiting import wait_until

DYING = Path(__file__).with_name("dying_collector.py")
DYING_POSTGRES = Path(__file__).with_name("dying_postgres_collector.py")
DYING_INFLUX = Path(__file__).with_name("dying_influx_collector.py")
MARK = "NEXUS_TEST_MARK"
# Tests start Java often and do little with it: the second compiler would not earn its time.
JAVA = "-XX:TieredStopAtLevel=1"
START_SECONDS = 150.0  # a busy machine is no reason to fail
GONE_SECONDS = 60.0
Line = dict[str, Any]


class CollectorFailed(AssertionError):
    """Raised when a collector ends where it should go on; says what it said."""


@dataclass
class CollectorProcess:
    """One `nexus collector`; `directory` holds what it wrote, its data unless told otherwise."""

    directory: Path
    queue: str
    store: str
    flags: tuple[str, ...] = ("--trigger", "200ms")
    environ: dict[str, str] = field(default_factory=dict)
    data_dir: Path | None = None
    settings: str = "derive_interval: 1s"  # of the section `collector`
    die: str = ""  # such as "before readings 2", see dying_collector
    process: subprocess.Popen[bytes] | None = None
    mark: str = ""
    starts: int = 0

    def start(self) -> CollectorProcess:
        """Start it and do not wait."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.starts += 1
        self.mark = f"{MARK}={uuid4().hex}"
        environ = {**os.environ, **self.environ, MARK: self.mark.partition("=")[2]}
        if self.die:
            environ["NEXUS_TEST_DIE"] = self.die
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ
            )
        return self

    def command(self) -> list[str]:
        kinds = {" merge ": DYING_POSTGRES, " commit ": DYING_INFLUX}
        dying = next((file for word, file in kinds.items() if word in self.die), DYING)
        program = [sys.executable, str(dying)] if self.die else [str(NEXUS)]
        config = self.directory / "collector.yaml"
        config.write_text(f"collector: {{{self.settings}}}\n")
        words = ["--queue", self.queue, "--store", self.store, "--config", str(config)]
        words += ["--data-dir", str(self.data_dir or self.directory / "data")]
        words += ["--http", "127.0.0.1:0", "--json"]
        words += ["--conf", f"spark.driver.extraJavaOptions={JAVA}"]
        return [*program, "collector", *words, *self.flags]

    # What it says

    @property
    def pid(self) -> int:
        assert self.process is not None, "it was not started"
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def stderr(self) -> str:
        return self._file("err").read_text(errors="replace")

    def lines(self) -> list[Line]:
        """What it told of this start; a line that is being written is left out."""
        text = self._file("out").read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def last(self) -> Line:
        return (self.lines() or [{}])[-1]

    def told(self) -> str:
        """The end of everything it said, for a test that failed."""
        logs = [path for path in self._data.glob("*/spark.*") if path.suffix in (".log", ".out")]
        texts = {"last line": json.dumps(self.last()), "stderr": self.stderr}
        texts |= {str(path): path.read_text(errors="replace") for path in logs}
        return "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in texts.items())

    def wait_line(
        self, wanted: Callable[[Line], object], what: str, within: float = START_SECONDS
    ) -> Line:
        """The first line of this start that is wanted; CollectorFailed if it ends without."""

        def look() -> Line | None:
            ended = not self.alive
            found = next((line for line in self.lines() if wanted(line)), None)
            if found is None and ended:
                raise CollectorFailed(f"it ended before {what}:\n{self.told()}")
            return found

        try:
            found = wait_until(look, within=within, what=what, every=0.05)
        except CollectorFailed:
            raise
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None
        assert found is not None
        return found

    def wait_phase(self, phase: str) -> Line:
        return self.wait_line(lambda line: line["phase"] == phase, phase)

    def wait_turn(self) -> Line:
        """Until it has the store, and starts Spark."""
        return self.wait_line(
            lambda line: line["phase"] == "running" or line["note"] == "Spark", "its turn"
        )

    def wait_batches(self, count: int = 1) -> Line:
        """Until so many batches of this start are committed."""
        return self.wait_line(lambda line: line["batches"] >= count, f"{count} batches")

    # How it ends

    def processes(self) -> dict[int, str]:
        """All living processes of this start, with their command lines."""
        return marked(self.mark)

    def workers(self) -> list[int]:
        """The Python processes in which Spark runs tasks; not the one that forks them."""
        found = self.processes().items()
        python = {pid for pid, words in found if words.endswith(" pyspark.worker")}
        return [pid for pid in python if parent_of(pid) in python]

    def wait(self, within: float = START_SECONDS) -> int:
        """Its exit status."""
        assert self.process is not None
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {within:g} s:\n{self.told()}") from None

    def stop(self, within: float = START_SECONDS) -> int:
        """SIGTERM, and its exit status."""
        if self.alive:
            os.kill(self.pid, signal.SIGTERM)
        return self.wait(within)

    def kill_driver(self) -> None:
        """kill -9 of the collector alone, as for want of memory; the rest must end by itself."""
        assert self.process is not None
        self.process.kill()
        self.wait()
        self.wait_gone()

    def kill_java(self) -> bool:
        """kill -9 of its Java machine alone; False if it has none yet."""
        found = self.processes().items()
        java = [pid for pid, words in found if "org.apache.spark.deploy.SparkSubmit" in words]
        for pid in java:
            kill(pid)
        return bool(java)

    def kill_all(self) -> None:
        """kill -9 of everything at once, as when the machine loses power; safe to call twice."""
        if self.process is None:
            return
        wait_until(lambda: not _killed(self.mark), what="the end of all its processes")
        self.process.wait()

    def wait_gone(self, within: float = GONE_SECONDS) -> None:
        """Until no process of this start is left, without any help."""
        wait_until(lambda: not self.processes(), within=within, what="the end of what it started")

    @property
    def _data(self) -> Path:
        return self.data_dir or self.directory / "data"

    def _file(self, kind: str) -> Path:
        return self.directory / f"{kind}-{self.starts}"


def marked(mark: str) -> dict[int, str]:
    """The living processes with this in their environment, with their command lines."""
    found: dict[int, str] = {}
    wanted = mark.encode()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                words = (place / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                found[int(place.name)] = words.decode(errors="replace")
    return found


def parent_of(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _killed(mark: str) -> list[int]:
    """The processes that were there, and may be there still."""
    found = list(marked(mark))
    for pid in found:
        kill(pid)
    return found
