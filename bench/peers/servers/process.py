"""A server in processes of its own, and what they cost: the part that all systems share."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from nexus.bench.clients import BenchFailed
from nexus.up.memory import pss_bytes, tree_of

_START_S: Final = 90.0
_END_S: Final = 60.0
_LINGER_S: Final = 2.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Durability(StrEnum):
    """When an acknowledged message is on the disk."""

    FSYNC = "fsync"  # before its acknowledgement
    INTERVAL = "interval"  # soon after it
    NONE = "none"  # when the system writes it


@dataclass(frozen=True, slots=True)
class Program:
    """What a system needs, and how to get it."""

    command: str
    package: str

    def missing(self) -> str | None:
        """What to do about it, when it is not there."""
        if find_program(self.command) is None:
            return f"{self.command} is not installed: apt-get install {self.package}"
        return None


class System(Protocol):
    """One of the compared: which durability it offers, by which words of its own, and a start."""

    @property
    def title(self) -> str: ...
    @property
    def client(self) -> str: ...
    @property
    def durability(self) -> Mapping[Durability, str]: ...
    def missing(self) -> str | None: ...
    def version(self) -> str: ...
    def start(self, place: Path, durability: Durability) -> Server: ...


class Server:
    """A started server; its processes are the one given and all that it started."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, data: Path) -> None:
        self.address = address
        self._process = process
        self._data = data

    def cpu_seconds(self) -> float:
        """User and system time of all its processes."""
        return sum(_cpu_of(pid) for pid in tree_of(self._process.pid))

    def memory_bytes(self) -> int:
        """Shared pages counted once (PSS)."""
        return pss_bytes(self._process.pid)

    def disk_bytes(self) -> int:
        """What its files take on the disk, holes left out."""
        return disk_bytes(self._data)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as the kernel would that has no memory left."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        tree = list(tree_of(self._process.pid)) if self._process.poll() is None else []
        for pid in tree if how == signal.SIGKILL else tree[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._end(signal.SIGKILL)
        # What a server started may outlive it, and would hold its files.
        for pid in tree[1:]:
            _see_off(pid)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def launch(
    command: Sequence[str], place: Path, port: int, environment: Mapping[str, str] | None = None
) -> Server:
    """Start a server and wait until it accepts connections; its words go to a file."""
    place.mkdir(parents=True, exist_ok=True)
    data = place / "data"
    data.mkdir(exist_ok=True)
    log = place / "server.log"
    with log.open("ab") as words:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            cwd=place,
            env={**os.environ, **(environment or {})},
        )
    server = Server(process, f"127.0.0.1:{port}", data)
    wait_for(lambda: _accepts(port), process, log, command[0])
    return server


def start_together(starts: Sequence[Callable[[], Server]], stack: ExitStack) -> list[Server]:
    """Start servers that wait for each other; the stack ends those that did start.

    They are killed: one that stops in good order may wait for others that have stopped before it.
    """
    with ThreadPoolExecutor(len(starts)) as pool:
        pending = [pool.submit(start) for start in starts]
    for one in pending:
        if one.exception() is None:
            stack.callback(one.result().kill)
    return [one.result() for one in pending]


def wait_for(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, name: str
) -> None:
    """Until it is ready; what it said, when it will not be."""
    deadline = time.monotonic() + _START_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            said = log.read_text(errors="replace")[-600:]
            raise BenchFailed(f"{Path(name).name} did not start: {said}")
        time.sleep(0.01)


def find_program(command: str) -> str | None:
    """Where it is; servers are often where only root's PATH looks."""
    return shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def first_line(command: Sequence[str]) -> str:
    """What a program says of itself."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def disk_bytes(folder: Path) -> int:
    total = 0
    for directory, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):  # deleted meanwhile
                total += (Path(directory) / file).stat().st_blocks * 512
    return total


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _cpu_of(pid: int) -> float:
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def _see_off(pid: int) -> None:
    deadline = time.monotonic() + _LINGER_S
    while _runs(pid):
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False
