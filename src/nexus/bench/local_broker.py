"""A broker that a measurement starts for itself, in a process and a data directory of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from nexus.bench.clients import BenchFailed

_READY = re.compile(r"broker ready on (\S+) \(http (\S+),")


class LocalBroker:
    """Started on construction; `ready_seconds` is how long that took, interpreter included."""

    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir = data_dir
        arguments = [
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--data-dir",
            str(data_dir),
        ]
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nexus", "broker", *arguments, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=broker_environment(),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.ready_seconds = time.perf_counter() - began
        found = _READY.search(line)
        if found is None:
            self.kill()
            raise BenchFailed(f"the broker did not start: {line!r}")
        self.bootstrap, self.http = found.groups()

    def stop(self) -> float:
        """Stop cleanly; returns how long that took."""
        began = time.perf_counter()
        self._end(signal.SIGTERM)
        return time.perf_counter() - began

    def kill(self) -> None:
        """End it as a power cut would end the process."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> LocalBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()


def broker_environment() -> dict[str, str]:
    """This one's, but free to keep compiled code, as an installed broker does."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
