"""Carries out what `machine` decides: processes, probes, timers. `run` returns when all have ended.

However it is left, no process that it started lives on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.up.asking import ask_soon
from nexus.up.child import Child
from nexus.up.events import (
    Action,
    Begin,
    Event,
    Exited,
    Kill,
    Notice,
    Ready,
    Start,
    Stop,
    Terminate,
    Tick,
)
from nexus.up.logfile import LogFile
from nexus.up.machine import House, Part, Rules, decide, house_of

_PROBE_S: Final = 0.1
_PROBE_SLOW_S: Final = 0.5
_PROBES_FAST: Final = 300
_KILLED_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Program:
    """A part as a program: its command line, and the page that answers 200 when it is ready."""

    part: Part
    command: tuple[str, ...]
    probe: str
    log: Path
    about: str = ""  # what it does or where it is, in a few words
    environ: Mapping[str, str] | None = None  # ours where none is said

    @property
    def name(self) -> str:
        return self.part.name


class Runner:
    """All parts, from `run` until the end of the last."""

    def __init__(
        self,
        programs: Iterable[Program],
        rules: Rules,
        tell: Callable[[Notice], None],
        *,
        log_bytes: int = 10 << 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.programs = {program.name: program for program in programs}
        self.house: House = house_of((p.part for p in self.programs.values()), rules)
        self.logs = {n: LogFile(p.log, log_bytes) for n, p in self.programs.items()}
        self._tell, self._clock = tell, clock
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._children: dict[str, Child] = {}
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._nobody = asyncio.Event()

    @property
    def pids(self) -> dict[str, int]:
        """The living processes of the parts."""
        return {n: child.pid for n, child in self._children.items() if child.pid is not None}

    def stop(self) -> None:
        """End everything in order; again to hurry."""
        self._events.put_nowait(Stop())

    async def run(self) -> House:
        """Until every part has ended after `stop`."""
        try:
            await self._apply(Begin())
            while not self.house.is_over:
                await self._apply(await self._next_event())
            return self.house
        finally:
            await self._leave_nobody()

    async def _next_event(self) -> Event:
        due = self.house.next_due
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                return await self._events.get()
        except TimeoutError:
            return Tick()

    async def _apply(self, event: Event) -> None:
        self.house, actions = decide(self.house, event, self._clock())
        for action in actions:
            await self._do(action)

    async def _do(self, action: Action) -> None:
        match action:
            case Start(name):
                await self._start(name)
            case Terminate(name):
                if name in self._children:
                    self._children[name].terminate()
            case Kill(name):
                if name in self._children:
                    self._children[name].kill()
            case _:
                self._told(action)

    def _told(self, notice: Notice) -> None:
        try:
            self._tell(notice)
        except OSError:  # nobody reads any more: the same as if they had said goodbye
            self._tell = lambda _: None
            if not self.house.is_stopping:
                self.stop()

    async def _start(self, name: str) -> None:
        def gone(status: int | None) -> None:
            self._forget(name)
            self._events.put_nowait(Exited(name, status))

        child = self._children[name] = Child(self.logs[name], gone)
        try:
            program = self.programs[name]
            await child.start(program.command, program.environ)
        except OSError as error:
            self.logs[name].write(f"nexus: cannot be started: {error}\n".encode())
            gone(None)
        if self._children.get(name) is child:  # it may have come and gone meanwhile
            self._probes[name] = asyncio.create_task(self._probe(name))

    async def _probe(self, name: str) -> None:
        tries = 0
        while not (await ask_soon(self.programs[name].probe)).is_ready:
            tries += 1
            await asyncio.sleep(_PROBE_S if tries < _PROBES_FAST else _PROBE_SLOW_S)
        self._events.put_nowait(Ready(name))

    def _forget(self, name: str) -> None:
        self._children.pop(name, None)
        if not self._children:
            self._nobody.set()
        probe = self._probes.pop(name, None)
        if probe is not None:
            probe.cancel()

    async def _leave_nobody(self) -> None:
        self._nobody.clear()
        for probe in self._probes.values():
            probe.cancel()
        for child in self._children.values():
            child.kill()
        if self._children:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nobody.wait(), _KILLED_S)
