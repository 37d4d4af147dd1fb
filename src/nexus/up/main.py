"""Runs all parts in the foreground until they are told to stop, or a demo's time is up."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from typing import Final

from nexus.errors import NexusError
from nexus.settings.place import Place
from nexus.settings.up import UpSettings
from nexus.up.events import Notice
from nexus.up.lock import UpLock
from nexus.up.machine import House
from nexus.up.plan import Plan, make_plan
from nexus.up.runner import Runner
from nexus.up.summary import Summary, Tally
from nexus.up.versions import newest_version
from nexus.up.voice import Voice, voice_for
from nexus.up.watch import Sight, Watcher
from nexus.up.words import Facts

_TALLY_S: Final = 10.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(settings: UpSettings, config: Place | None = None, *, as_json: bool = False) -> int:
    """0 when all ended; 1 if a demo has stored nothing.

    AlreadyUp, PortTaken and NoEtcd are raised before a start.
    """
    lock = UpLock(settings.up.data_dir)
    lock.take()
    try:
        plan = make_plan(settings, config)
        lock.tell({name: address.url for name, address in plan.addresses.items()})
        return asyncio.run(Up(plan, as_json=as_json).run())
    finally:
        lock.release()


class Up:
    """One run: the parts, those who watch them, and what is said."""

    def __init__(self, plan: Plan, *, as_json: bool) -> None:
        self._plan = plan
        self._runner = Runner(
            plan.programs(), plan.rules, self._notice, log_bytes=plan.settings.up.log_bytes
        )
        facts = Facts(
            self._runner.programs,
            plan.dashboard,
            str(plan.settings.log_dir),
            lambda name: self._runner.logs[name].last_words(),
            plan.proxy_url,
        )
        self._voice: Voice = voice_for(facts, as_json=as_json)
        self._watcher = Watcher(plan.collector_url, plan.dashboard, self._show)
        self._stopped_at: float | None = None

    async def run(self) -> int:
        began = time.monotonic()
        self._listen()
        since = await asyncio.to_thread(_version_before, self._plan)
        watching = asyncio.create_task(self._watcher.run())
        try:
            house = await self._runner.run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._voice.close()
            self._listen_no_more()
        return await self._finish(house, began, since)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
                loop.add_signal_handler(number, self._stop)
        seconds = self._plan.settings.up.demo_seconds
        if seconds is not None:
            loop.call_later(seconds, self._demo_over)

    def _listen_no_more(self) -> None:
        """What is left to do may be broken off like any other command."""
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _stop(self) -> None:
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
        self._runner.stop()

    def _demo_over(self) -> None:
        if self._stopped_at is None:
            self._stop()

    def _notice(self, notice: Notice) -> None:
        self._voice.notice(notice)

    def _show(self, sight: Sight) -> None:
        with suppress(OSError):  # whoever read our words is gone; a notice will find that out too
            self._voice.show(sight, self._runner.house)

    async def _finish(self, house: House, began: float, since: int | None) -> int:
        ended = time.monotonic()
        stopped = ended if self._stopped_at is None else self._stopped_at
        tally = await _tallied(self._plan, since, wanted=not house.hurry)
        sight = self._watcher.sight
        if tally.readings is None:  # no tables to count in: then what the collector said last
            tally = Tally(sight.stored)
        summary = Summary(stopped - began, ended - stopped, house, sight, tally)
        with suppress(OSError):
            self._voice.summary(summary)
        own = self._plan.settings.up
        is_idle = own.demo_seconds is not None and own.collector and not tally.readings
        return 1 if is_idle else 0


def _version_before(plan: Plan) -> int | None:
    """Where the tables stand before the start; None if that cannot be known, or there are none."""
    with suppress(NexusError, OSError):
        return newest_version(plan.stores[0])
    return None


async def _tallied(plan: Plan, since: int | None, *, wanted: bool) -> Tally:
    """What the run added to the tables, if that is known in time."""
    if not wanted or since is None or not plan.settings.up.collector:
        return Tally()
    from nexus.up.tally import tally  # noqa: PLC0415 - slow to load, and only now of use

    with suppress(NexusError, OSError, TimeoutError):
        async with asyncio.timeout(_TALLY_S):
            return await asyncio.to_thread(tally, plan.stores[0], since)
    return Tally()
