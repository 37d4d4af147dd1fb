"""An InfluxDB that a measurement or a test starts for itself, in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import httpx

from nexus.bench.clients import BenchFailed
from nexus.bench.ports import free_port

_START_S: Final = 60.0
_END_S: Final = 30.0
# What docs/stores.md says of a server that others do not share.
_CONFIG: Final = """
reporting-disabled = true
bind-address = "127.0.0.1:{inner}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  index-version = "tsi1"
  query-log-enabled = false
  cache-snapshot-memory-size = "256m"
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
{http}
[logging]
  level = "warn"
[monitor]
  store-enabled = false
[continuous_queries]
  enabled = false
[subscriber]
  enabled = false
"""


class LocalInflux:
    """One server on a free port, which it keeps over a restart; ended with the block."""

    def __init__(self, folder: Path, http: str = "", scheme: str = "http") -> None:
        self.folder = folder
        self.port = free_port()
        self._http = http
        self._scheme = scheme
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str, options: str = "") -> str:
        """The address of a store in one of its databases."""
        tail = f"?{options}" if options else ""
        return f"influxdb://127.0.0.1:{self.port}/{database}{tail}"

    def __enter__(self) -> LocalInflux:
        self.folder.mkdir(parents=True, exist_ok=True)
        said = {"folder": self.folder, "port": self.port, "inner": free_port(), "http": self._http}
        (self.folder / "influxdb.conf").write_text(_CONFIG.format(**said))
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self) -> None:
        program = shutil.which("influxd")
        if program is None:
            raise BenchFailed("influxd was not found: apt install influxdb")
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [program, "run", "-config", str(self.folder / "influxdb.conf")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "GOGC": "400"},
            )
        until = time.monotonic() + _START_S
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                self.kill()
                raise BenchFailed(f"influxd: {(self.folder / 'log').read_text()[-500:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash does; safe to call twice."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _answers(self) -> bool:
        address = f"{self._scheme}://127.0.0.1:{self.port}/ping"
        try:
            return httpx.get(address, timeout=5, verify=False, trust_env=False).is_success
        except httpx.HTTPError:
            return False
