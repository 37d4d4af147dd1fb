"""Gateways for tests: stores to ask, clients in this process, and real ones in a process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import FastAPI

from nexus.gateway.app import create_app
from nexus.gateway.dashboard import Dashboard
from nexus.gateway.gateway import build_gateway
from nexus.settings.gateway import GatewaySection
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support.broker import NEXUS
from support.derived import put
from support.lake import store_in
from support.waiting import wait_until


def store_readings(folder: Path, *tables: pa.Table) -> None:
    """Store source readings, as a collector would, in one commit a table."""
    put(store_in(folder), *(plain(normalise(table)) for table in tables))


def just_now(table: pa.Table) -> pa.Table:
    """The same readings, as if the last of them had been taken now."""
    moments = table.column("timestamp")
    away_us = time.time_ns() // 1000 - pc.max(moments.cast(pa.int64())).as_py()
    moved = pc.add(moments, pa.scalar(away_us, pa.duration("us")))
    at = table.schema.get_field_index("timestamp")
    return table.set_column(at, table.schema.field(at), moved)


class Client:
    """Asks an application in this process, one request after the other."""

    def __init__(self, app: FastAPI, runner: asyncio.Runner) -> None:
        self._runner = runner
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://gateway")

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **params: Any
    ) -> httpx.Response:
        asked = self._http.request(method, path, headers=headers, params=params or None)
        return self._runner.run(asked)

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, **params: Any
    ) -> httpx.Response:
        return self.request("GET", path, headers, **params)

    def json(self, path: str, **params: Any) -> Any:
        """The document of an answer that must be there."""
        response = self.get(path, **params)
        assert response.status_code == 200, response.text
        return response.json()

    def problem(self, path: str, **params: Any) -> dict[str, Any]:
        """The problem document of an answer that must be one."""
        response = self.get(path, **params)
        assert response.headers["content-type"] == "application/problem+json", response.text
        found: dict[str, Any] = response.json()
        assert found["status"] == response.status_code
        return found


class Clients(Client):
    """Several clients, who need not wait for each other."""

    def at_once(self, paths: Sequence[str]) -> list[httpx.Response]:
        async def all_of_them() -> list[httpx.Response]:
            return await asyncio.gather(*(self._http.get(path) for path in paths))

        return self._runner.run(all_of_them())


@contextmanager
def asking(
    folder: Path, now_s: float, static: Path | None = None, **settings: Any
) -> Iterator[Client]:
    """A client of a gateway over a store, in this process and at a fixed time."""
    section = GatewaySection(store=f"delta://{folder}", **settings)
    gateway = build_gateway(section, clock=lambda: now_s)
    with asyncio.Runner() as runner:
        runner.run(gateway.start())
        try:
            yield Client(create_app(gateway, Dashboard(static) if static else None), runner)
        finally:
            runner.run(gateway.stop())


@dataclass
class GatewayProcess:
    """One `nexus gateway` on a port that the system chose."""

    directory: Path
    store: Path
    flags: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> GatewayProcess:
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [str(NEXUS), "gateway", "--store", f"delta://{self.store}", "--port", "0"]
        with (
            (self.directory / "stdout").open("wb") as out,
            (self.directory / "stderr").open("wb") as err,
        ):
            self.process = subprocess.Popen(
                [*words, *self.flags], stdout=out, stderr=err, env={**os.environ, **self.environ}
            )
        wait_until(self._address, within=60, what="the ready line")
        return self

    def _address(self) -> str | None:
        assert self.process is not None
        assert self.process.poll() is None, self.stderr
        found = re.search(r"gateway ready on (http://\S+)", self.stdout)
        return found[1] if found else None

    @property
    def url(self) -> str:
        address = self._address()
        assert address is not None
        return address

    @property
    def stdout(self) -> str:
        return (self.directory / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.directory / "stderr").read_text()

    def get(self, path: str, **params: Any) -> httpx.Response:
        return httpx.get(self.url + path, params=params, timeout=30)

    def stop(self, number: int = signal.SIGTERM, within: float = 10.0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(within)

    def kill(self) -> None:
        """kill -9; safe to call twice."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


async def statuses(url: str, paths: Sequence[str]) -> list[int]:
    """Ask one after the other over one connection, as plainly as can be; the status of each."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    found = []
    for path in paths:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", head)
        assert length is not None, head
        await reader.readexactly(int(length[1]))
        found.append(int(head.split(" ", 2)[1]))
    writer.close()
    return found
