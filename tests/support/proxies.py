"""Proxies for tests: real ones in a process of their own, asked by httpx."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from support.broker import NEXUS
from support.ports import free_port
from support.waiting import wait_until

READY = re.compile(r"^proxy ready on (?P<url>\S+)$", re.MULTILINE)
START_SECONDS = 60.0
STOP_SECONDS = 20.0
# One for all: making a client costs more than what it is asked here. Nothing is kept alive, so that
# a proxy that was started anew is not asked over its predecessor's connection.
HTTP = httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class ProxyProcess:
    """One `nexus proxy`; it keeps its port over a restart."""

    directory: Path
    brokers: str
    flags: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    prefix: tuple[str, ...] = ()  # what starts it
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return (self.directory / "stderr").read_text(errors="replace")

    def start(self) -> ProxyProcess:
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [*self.prefix, str(NEXUS), "proxy"]
        if "PORT" not in self.environ:
            words += ["--brokers", self.brokers, "--port", str(self.port)]
        with (
            (self.directory / "stdout").open("wb") as out,
            (self.directory / "stderr").open("ab") as err,
        ):
            self.process = subprocess.Popen(
                [*words, *self.flags],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **self.environ},
            )
        wait_until(self._is_ready, within=START_SECONDS, what="the proxy's ready line")
        assert self.process.poll() is None, self.said
        return self

    def _is_ready(self) -> bool:
        assert self.process is not None
        said = (self.directory / "stdout").read_text(errors="replace")
        return bool(READY.search(said)) or self.process.poll() is not None

    def stop(self) -> int:
        """SIGTERM, and its exit status; safe to call twice."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9; safe to call twice."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(STOP_SECONDS)

    def rss_bytes(self) -> int:
        """The memory it holds now."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found, status
        return int(found[1]) * 1024

    def post(self, path: str, **more: Any) -> httpx.Response:
        return HTTP.post(self.url + path, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return HTTP.get(self.url + path, **more)

    def produce(self, topic: str, payload: Any, **params: Any) -> dict[str, Any]:
        """Where a message went, which must have been written."""
        answer = self.post("/produce", params={"topic": topic, **params}, json={"payload": payload})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


Proxies = tuple[ProxyProcess, ProxyProcess]


@contextmanager
def two_proxies(folder: Path, brokers: str, **environ: str) -> Iterator[Proxies]:
    """Started, and ended after the test; neither may have been surprised by anything."""
    often = {"NEXUS_PROXY_HEARTBEAT": "500ms", **environ}
    made = [ProxyProcess(folder / f"proxy-{n}", brokers, environ=often) for n in (1, 2)]
    try:
        for proxy in made:
            proxy.start()
        yield made[0], made[1]
        for proxy in made:
            assert "Traceback" not in proxy.said
    finally:
        for proxy in made:
            proxy.stop()
