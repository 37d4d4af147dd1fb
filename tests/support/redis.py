"""A real redis-server in a process of its own: started, killed and filled by tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from nexus.queue.opening import open_reader
from nexus.queue.port import Received
from support.broker import NEXUS
from support.needs import need_program
from support.ports import free_port
from support.waiting import wait_until


@dataclass
class RedisServer:
    """What was written is on the disk when it is confirmed; the port outlives a restart."""

    directory: Path
    flags: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    password: str | None = None

    def start(self) -> RedisServer:
        words = [need_program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        words += ["--dir", str(self.directory), "--appendonly", "yes", "--appendfsync", "always"]
        words += ["--save", "", "--unixsocket", str(self.directory / "socket"), *self.flags]
        log = (self.directory / "log").open("ab")
        with log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, within=30, what="redis-server")
        return self

    def answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except redis.ConnectionError:
            return False

    def client(self) -> Any:
        return redis.Redis(port=self.port, password=self.password)

    def url(self, kind: str, key: str, more: str = "") -> str:
        return f"redis://127.0.0.1:{self.port}/0?{kind}={key}{more}"

    def kill(self) -> None:
        """kill -9; safe to call twice."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)


@contextmanager
def queue_command(*words: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """`nexus queue …` in a process of its own, which is gone afterwards."""
    process = subprocess.Popen(
        [str(NEXUS), "queue", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def messages_in(queue: str) -> list[Received]:
    """All there is in a topic, partition by partition."""
    reader = open_reader(queue)
    try:
        bounds = reader.bounds()
        return [
            message
            for number, (start, end) in bounds.items()
            for batch in reader.read(number, start, end)
            for message in batch
        ]
    finally:
        reader.close()
