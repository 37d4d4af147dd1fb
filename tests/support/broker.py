"""A real broker in a process of its own: started, stopped, killed and asked by tests.

It keeps its ports over a restart, so clients find it again. Every wait has a deadline, and only
processes started here are ever signalled.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from support.ports import free_port
from support.waiting import wait_until

NEXUS = Path(sys.executable).with_name("nexus")
READY = re.compile(
    r"^broker ready on (?P<address>\S+) \(http (?P<http>\S+), data (?P<data>.+), "
    r"fsync (?P<fsync>\w+), (?P<topics>\d+) topics?, (?P<partitions>\d+) partitions?, "
    r"(?P<seconds>[\d.]+) s\)$",
    re.MULTILINE,
)
START_SECONDS = 20.0
STOP_SECONDS = 30.0

# Every broker a test has running now, so that a failure can show what they said.
running: list[BrokerProcess] = []


class BrokerFailed(AssertionError):
    """Raised when a broker ends, or stays silent, where it should have become ready."""


class Sample(NamedTuple):
    """One line of `/metrics`."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass
class BrokerProcess:
    """One broker; `directory` holds its data, its settings file and what it wrote."""

    directory: Path
    fsync: str = "commit"
    settings: str = ""
    data_dir: Path = field(default_factory=Path)
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    host: str = "127.0.0.1"
    inside: Callable[[], AbstractContextManager[None]] = nullcontext  # the host it is started on

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.data_dir == Path():
            self.data_dir = self.directory / "data"

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def http_url(self) -> str:
        return f"http://{self.host}:{self.http_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker was not started"
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def stderr(self) -> str:
        path = self.directory / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def stdout(self) -> str:
        path = self.directory / "stdout"
        return path.read_text(errors="replace") if path.exists() else ""

    def faults(self, since: int = 0) -> list[str]:
        """What it logged with a traceback, after so many characters: always a defect of ours."""
        return [line for line in self.stderr[since:].splitlines() if "Traceback" in line]

    def command(self) -> list[str]:
        words = [str(NEXUS), "broker", "--data-dir", str(self.data_dir), "--fsync", self.fsync]
        words += ["--listen", self.bootstrap, "--http", f"{self.host}:{self.http_port}"]
        if self.settings:
            path = self.directory / "broker.yaml"
            path.write_text(self.settings)
            words += ["--config", str(path)]
        return words

    def start(self) -> re.Match[str]:
        """Start it and wait for its ready line, which is returned."""
        self.spawn()
        return self.wait_ready()

    def spawn(self) -> None:
        """Start it and do not wait."""
        assert not self.alive, "the broker runs already"
        with (
            self.inside(),
            (self.directory / "stdout").open("wb") as out,
            (self.directory / "stderr").open("ab") as err,
        ):
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        if self not in running:
            running.append(self)

    def wait_ready(self, within: float = START_SECONDS) -> re.Match[str]:
        def ready_or_ended() -> re.Match[str] | bool | None:
            return READY.search(self.stdout) or not self.alive

        found = wait_until(ready_or_ended, within=within, what="the broker's ready line")
        if not isinstance(found, re.Match):
            status = self.wait_exit()
            running.remove(self)
            raise BrokerFailed(f"the broker ended with {status}:\n{self.stderr}")
        return found

    def wait_exit(self, within: float = STOP_SECONDS) -> int:
        assert self.process is not None
        return self.process.wait(within)

    def stop(self) -> int:
        """SIGTERM, and its exit status; safe to call twice."""
        if self.process is None:
            return 0
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.wait_exit()
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9; safe to call twice."""
        if self.process is not None and self.alive:
            self.process.kill()
            self.process.wait(STOP_SECONDS)
        if self in running:
            running.remove(self)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP, until the block ends."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def restart(self) -> re.Match[str]:
        assert self.stop() == 0, self.stderr
        return self.start()

    def rss_bytes(self) -> int:
        """The memory it holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found, status
        return int(found[1]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - only the count matters

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page on the side port, whatever the status."""
        try:
            with urllib.request.urlopen(self.http_url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.get("/health")[1])
        return answer

    def metrics(self) -> list[Sample]:
        _, text = self.get("/metrics")
        return [
            Sample(sample.name, dict(sample.labels), float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name and (at least) these labels; 0 when none."""
        return sum(
            sample.value
            for sample in self.metrics()
            if sample.name == name and labels.items() <= sample.labels.items()
        )
