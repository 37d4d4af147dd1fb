"""A real `nexus up` in a process of its own, and all that it starts.

Every process of one start carries a mark in its environment, by which it is found whoever its
parent is by now. Only those are ever signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from support.broker import NEXUS
from support.collectors import MARK, kill, marked
from support.ports import free_port
from support.waiting import wait_until

Told = dict[str, Any]
START_SECONDS = 100.0  # a busy machine is no reason to fail


@dataclass
class UpProcess:
    """One `nexus up --json` after the other, on one data directory and the same ports."""

    directory: Path
    flags: tuple[str, ...] = ()
    ports: dict[str, int] = field(
        default_factory=lambda: {
            flag: free_port()
            for flag in ("broker", "broker-http", "streamer", "collector", "dashboard")
        }
    )
    environ: dict[str, str] = field(default_factory=dict)  # more than this process has
    process: subprocess.Popen[bytes] | None = None
    mark: str = ""
    starts: int = 0

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports['broker']}"

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self.ports['dashboard']}"

    def command(self, *more: str) -> list[str]:
        words = ["--data-dir", str(self.data_dir), "--json"]
        for name, port in self.ports.items():
            flag = "--port" if name == "dashboard" else f"--{name}-port"
            words += [flag, str(port)]
        return [str(NEXUS), "up", *words, *self.flags, *more]

    def start(self, *more: str) -> UpProcess:
        """Start it and do not wait."""
        self.starts += 1
        self.mark = f"{MARK}={uuid4().hex}"
        environ = {**os.environ, **self.environ, MARK: self.mark.partition("=")[2]}
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self.process = subprocess.Popen(
                self.command(*more), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ
            )
        return self

    def told(self, event: str = "", **facts: object) -> list[Told]:
        """The events of this start of one kind, with (at least) these facts, in order."""
        lines = self._file("out").read_text().splitlines(keepends=True)
        events: list[Told] = [json.loads(line) for line in lines if line.endswith("\n")]
        return [
            e for e in events if (not event or e["event"] == event) and facts.items() <= e.items()
        ]

    def wait_told(self, event: str, within: float = START_SECONDS, **facts: object) -> Told:
        """The first such event; an AssertionError with all that was said if it does not come."""

        def look() -> list[Told]:
            found = self.told(event, **facts)
            assert found or self.is_alive, f"it ended before {event} {facts}:\n{self.words()}"
            return found

        try:
            return wait_until(look, within=within, what=f"{event} {facts}", every=0.05)[0]
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.words()}") from None

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def stderr(self) -> str:
        return self._file("err").read_text(errors="replace")

    def words(self) -> str:
        """All that it and its parts said, for a test that failed."""
        files = [self._file("out"), self._file("err"), *sorted(self.data_dir.glob("logs/*.log"))]
        return "\n".join(f"--- {p.name}\n{p.read_text(errors='replace')[-3000:]}" for p in files)

    def pids_of(self, wanted: Callable[[str], object]) -> list[int]:
        """Its living processes whose command line is wanted."""
        return [pid for pid, words in marked(self.mark).items() if wanted(words)]

    def pid_of(self, part: str) -> int:
        """The process of a part, such as `nexus broker`, or of its own etcd."""
        mark = f"--data-dir {self.data_dir}/etcd" if part == "etcd" else f"-m nexus {part}"
        (pid,) = self.pids_of(lambda words: mark in words)
        return pid

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, within: float = 30.0) -> int:
        assert self.process is not None
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {within:g} s:\n{self.words()}") from None

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to end, and its exit status."""
        if self.is_alive:
            self.send(number)
        return self.wait()

    def wait_gone(self, within: float = 20.0) -> None:
        """Until no process of this start is left, without any help."""
        wait_until(lambda: not marked(self.mark), within=within, what="the end of all parts")

    def kill_all(self) -> None:
        """Safe to call twice."""
        for pid in marked(self.mark) if self.mark else ():
            kill(pid)
        if self.process is not None:
            self.process.wait(10)

    def _file(self, kind: str) -> Path:
        return self.directory / f"{kind}-{self.starts}"
