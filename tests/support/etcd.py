"""Real etcd in processes of its own, one member or three: started, killed, paused by tests.

A member keeps its ports and its data over a restart. Only processes started here are signalled.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from nexus.etcd import Client, EtcdConfig, connect
from support.needs import need_program
from support.ports import free_port
from support.waiting import wait_until

T = TypeVar("T")
START_SECONDS = 30.0
_QUICK = ("--heartbeat-interval", "50", "--election-timeout", "500")


@dataclass
class EtcdMember:
    """One etcd process. `flags` are added to its command line."""

    directory: Path
    name: str = "m1"
    flags: tuple[str, ...] = ()
    scheme: str = "http"
    port: int = field(default_factory=free_port)
    peer_port: int = field(default_factory=free_port)
    health_port: int = field(default_factory=free_port)
    cluster: str = ""
    process: subprocess.Popen[bytes] | None = None
    host: str = "127.0.0.1"
    inside: Callable[[], AbstractContextManager[None]] = nullcontext  # the host it is started on

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://{self.host}:{self.peer_port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.directory / f"{self.name}.log").read_text(errors="replace")

    def command(self) -> list[str]:
        url = f"{self.scheme}://{self.endpoint}"
        words = [need_program("etcd"), "--name", self.name, "--logger", "zap", *_QUICK]
        words += ["--data-dir", str(self.directory / self.name), "--log-level", "warn"]
        words += ["--listen-client-urls", url, "--advertise-client-urls", url]
        words += ["--listen-peer-urls", self.peer_url]
        words += ["--initial-advertise-peer-urls", self.peer_url]
        words += ["--initial-cluster", self.cluster or f"{self.name}={self.peer_url}"]
        words += ["--listen-metrics-urls", f"http://{self.host}:{self.health_port}"]
        return [*words, *self.flags]

    def spawn(self) -> None:
        """Start it and do not wait."""
        assert not self.alive, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.inside(), (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start(self) -> EtcdMember:
        self.spawn()
        return self.wait_healthy()

    def wait_healthy(self) -> EtcdMember:
        wait_until(lambda: self.healthy() or not self.alive, within=START_SECONDS, what="health")
        assert self.alive, self.log[-2000:]
        return self

    def healthy(self) -> bool:
        """Whether it has a leader and takes clients; the ports do not open at the same time."""
        with suppress(OSError), socket.create_connection((self.host, self.port), 2):
            url = f"http://{self.host}:{self.health_port}/health"
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200 and b'"true"' in answer.read()
        return False

    def kill(self) -> None:
        """kill -9; safe to call twice."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def pause(self) -> None:
        """SIGSTOP; returns when every thread stands still."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        wait_until(lambda: all(_stopped(thread) for thread in threads.iterdir()), what="a pause")

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def config(self, **changes: Any) -> EtcdConfig:
        return EtcdConfig((self.endpoint,), **changes)

    def run(self, story: Callable[[Client], Awaitable[T]], **changes: Any) -> T:
        """Let a client of this member live through a story."""
        return run(story, self.config(**changes))


@dataclass
class EtcdCluster:
    """Three members that are one etcd."""

    directory: Path
    members: list[EtcdMember] = field(default_factory=list)

    def start(self) -> EtcdCluster:
        self.members = self.members or [
            EtcdMember(self.directory, name) for name in ("m1", "m2", "m3")
        ]
        everyone = ",".join(f"{each.name}={each.peer_url}" for each in self.members)
        for member in self.members:
            member.cluster = everyone
            member.spawn()
        return self.wait_healthy()

    def wait_healthy(self) -> EtcdCluster:
        for member in self.members:
            member.wait_healthy()
        return self

    def heal(self) -> EtcdCluster:
        """Everyone runs and agrees again."""
        for member in self.members:
            if not member.alive:
                member.spawn()
            member.resume()
        return self.wait_healthy()

    def kill(self) -> None:
        for member in self.members:
            member.kill()

    def config(self, **changes: Any) -> EtcdConfig:
        return EtcdConfig(tuple(member.endpoint for member in self.members), **changes)

    def run(self, story: Callable[[Client], Awaitable[T]], **changes: Any) -> T:
        """Let a client of all members live through a story."""
        return run(story, self.config(**changes))

    async def leader(self, client: Client) -> EtcdMember:
        """The member that leads now."""
        for member in self.members:
            if (await client.maintenance.status(member.endpoint)).is_leader:
                return member
        raise AssertionError("nobody leads")

    def serving(self, client: Client) -> EtcdMember:
        """The member that answers a client now."""
        endpoint = client.maintenance.endpoint
        return next(member for member in self.members if member.endpoint == endpoint)


def run(story: Callable[[Client], Awaitable[T]], config: EtcdConfig) -> T:
    async def whole() -> T:
        async with connect(config) as client:
            return await story(client)

    return asyncio.run(whole())


def _stopped(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


async def eventually(
    condition: Callable[[], Awaitable[T | None]], *, within: float = 10.0, what: str = ""
) -> T:
    """The first truthy answer of an asynchronous condition."""
    deadline = time.monotonic() + within
    while True:
        answer = await condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {within:g} s: {what or condition}"
        await asyncio.sleep(0.02)


class CuttingProxy:
    """A TCP proxy before one member that can lose requests or answers, and cut connections."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self.lose_requests = False
        self.lose_answers = False
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> CuttingProxy:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def refuse(self) -> None:
        """Cut everything and accept nothing more."""
        if self._server is not None:
            self._server.close()
        await self.cut()

    async def cut(self) -> None:
        """End every connection at once."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers |= {writer, there[1]}
        for source, sink, lost in (
            (reader, there[1], lambda: self.lose_requests),
            (there[0], writer, lambda: self.lose_answers),
        ):
            pump = asyncio.ensure_future(self._pump(source, sink, lost))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    @staticmethod
    async def _pump(
        source: asyncio.StreamReader, sink: asyncio.StreamWriter, lost: Callable[[], bool]
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if not lost():
                    sink.write(data)
                    await sink.drain()
        sink.transport.abort()
