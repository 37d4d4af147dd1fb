"""One process of a part: out of the terminal's reach, on a leash, with its words in a log."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from nexus.up.logfile import LogFile

_LEASH: Final = Path(__file__).with_name("leash.py")
_LAST_WORDS_S: Final = 0.5


class Child(asyncio.SubprocessProtocol):
    """`start` it; `gone` is called once, when it has ended and said its last words."""

    def __init__(self, log: LogFile, gone: Callable[[int | None], None]) -> None:
        self._log = log
        self._gone = gone
        self._is_gone = False
        self._transport: asyncio.SubprocessTransport | None = None

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.get_pid()

    async def start(self, command: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        """OSError if the system cannot start one more process."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._log.begin(f"--- {now} started: {' '.join(command)}")
        loop = asyncio.get_running_loop()
        transport, _ = await loop.subprocess_exec(
            lambda: self,
            *(sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=environ,
        )
        self._transport = transport

    def terminate(self) -> None:
        """Ask it to end; safe at any time."""
        if self.pid is not None and not self._is_gone:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and its group at once; safe at any time."""
        if self.pid is not None and not self._is_gone:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        self._log.write(data.encode() if isinstance(data, str) else data)

    def process_exited(self) -> None:
        # Somebody whom it started may still hold its output open.
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._is_gone or self._transport is None:
            return
        self.kill()
        self._is_gone = True
        status = self._transport.get_returncode()
        self._transport.close()
        self._log.close()
        self._gone(status)
