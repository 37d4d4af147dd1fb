"""Runs one broker in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import uvloop

from nexus.broker.broker import Broker
from nexus.errors import NexusError
from nexus.observe.logs import configure, get_logger
from nexus.settings import BrokerSettings
from nexus.settings.broker import SECTIONS
from nexus.settings.changes import Follow

if TYPE_CHECKING:
    from nexus.etcd_settings.following import Reckoning

log = get_logger(__name__)

# Few objects live long on the hot path; the default would look for cycles every 700 of them.
GC_THRESHOLDS: Final = (50_000, 20, 100)
# How long a busy background thread may keep the event loop waiting; the default is 5 ms.
SWITCH_SECONDS: Final = 0.001


def run(
    settings: BrokerSettings,
    began_at: float | None = None,
    *,
    follow: Follow[BrokerSettings] | None = None,
    reload: Callable[[], BrokerSettings] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; the exit status.

    Settings may change meanwhile: as `follow` tells, or by what `reload` reads at a SIGHUP.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    configure(settings.broker.log_level, form=settings.broker.log_format)
    live = _Live(settings, reload)
    with (
        nullcontext() if follow is None else follow(settings, live.take_up),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_serve(settings, began_at or perf_counter(), live))


class _Live:
    """Hands settings that changed to the broker, once it runs."""

    def __init__(
        self, settings: BrokerSettings, reload: Callable[[], BrokerSettings] | None
    ) -> None:
        self._start = settings
        self._reload = reload
        self.can_reload = reload is not None
        self._reckoning: Reckoning[BrokerSettings] | None = None
        self.broker: Broker | None = None

    def take_up(self, changed: BrokerSettings) -> None:
        """From any thread."""
        configure(changed.broker.log_level, form=changed.broker.log_format)
        if self.broker is not None:
            self.broker.loop.call_soon_threadsafe(self.broker.take_up, changed)

    def on_hangup(self) -> None:
        """Read the settings anew; a mistake in them changes nothing."""
        if self._reload is None:
            return
        try:
            changed = self._reload()
        except NexusError as error:
            log.error("the settings are left as they were", why=str(error))
            return
        if self._reckoning is None:
            # Most brokers are never told to: only who is pays for loading this.
            from nexus.etcd_settings.following import Reckoning  # noqa: PLC0415

            self._reckoning = Reckoning(self._start, SECTIONS, self.take_up)
        self._reckoning.hear(changed)


async def _serve(settings: BrokerSettings, began_at: float, live: _Live) -> int:
    broker = Broker(settings)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        broker.loop.add_signal_handler(number, stopping.set)
    if live.can_reload:
        broker.loop.add_signal_handler(signal.SIGHUP, live.on_hangup)
    try:
        await broker.start()
        live.broker = broker
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        _announce(broker, perf_counter() - began_at)
        await stopping.wait()
        log.info("stopping")
    finally:
        await _finish(broker.stop())
    return 0


async def _finish(stopping: Coroutine[Any, Any, None]) -> None:
    """Complete a clean stop even when the task that asks for it is cancelled."""
    await asyncio.shield(asyncio.ensure_future(stopping))


def _announce(broker: Broker, seconds: float) -> None:
    own, port = broker.settings.broker, broker.port
    partitions = sum(1 for _ in broker.topics.partitions())
    print(
        f"broker ready on {own.host}:{port} "
        f"(http http://{own.http_host}:{broker.side_port.port}, data {own.data_dir}, "
        f"fsync {broker.settings.storage.fsync}, {len(broker.topics)} topics, "
        f"{partitions} partitions, {seconds:.2f} s)",
        flush=True,
    )
    if own.open_to_network:
        log.warning(
            "the broker can be reached from other machines and asks nobody for a password",
            host=own.host,
        )
    sys.stdout.flush()
