"""Runs one streamer in this process until its source ends or it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import sys
from contextlib import nullcontext, suppress
from dataclasses import replace

import uvloop

from nexus.observe.http import SidePort
from nexus.observe.logs import configure, get_logger
from nexus.settings.changes import Follow
from nexus.settings.streamer import StreamerSection, StreamerSettings
from nexus.streamer.build import build_engine, pacer_of
from nexus.streamer.display import show
from nexus.streamer.engine import Engine
from nexus.streamer.errors import StreamerError
from nexus.streamer.repacing import Pace
from nexus.streamer.report import Summary, summary_of
from nexus.streamer.side_port import side_port

log = get_logger(__name__)


def run(
    settings: StreamerSettings,
    *,
    from_start: bool = False,
    follow: Follow[StreamerSettings] | None = None,
) -> int:
    """Stream until the end or SIGTERM or SIGINT; 0 only if everything is acknowledged.

    With `follow`, pace and log level change while it runs.
    """
    configure(settings.streamer.log_level, form=settings.streamer.log_format)
    pace = Pace(pacer_of(settings))

    def take_up(changed: StreamerSettings) -> None:
        configure(changed.streamer.log_level, form=settings.streamer.log_format)
        pace.change(pacer_of(changed))  # as of now, also if it was another value that changed

    with (
        nullcontext() if follow is None else follow(settings, take_up),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        summary = runner.run(_stream(settings, from_start, pace))
    for line in summary.lines:
        print(line, flush=True)
    return summary.exit_code


async def _stream(settings: StreamerSettings, from_start: bool, pace: Pace) -> Summary:
    own = settings.streamer
    engine = build_engine(settings, pace, from_start=from_start)
    port: SidePort | None = None
    display: asyncio.Task[None] | None = None
    try:
        port = await _listen(engine, settings)
        _announce(engine, own, port)
        _stop_on_signals(engine)
        display = asyncio.create_task(show(engine))
        await engine.run()
    finally:
        await _end(display, port)
        await engine.close()
    return summary_of(engine, endless=_is_endless(engine, own))


async def _end(display: asyncio.Task[None] | None, port: SidePort | None) -> None:
    if display is not None:
        display.cancel()
        with suppress(asyncio.CancelledError):
            await display
    if port is not None:
        await port.stop()


async def _listen(engine: Engine, settings: StreamerSettings) -> SidePort:
    """Open the side port; several streamers share a machine, so only a chosen port must be free."""
    own = settings.streamer
    port = side_port(engine, own)
    try:
        await port.start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        if settings.is_given("streamer.http_port"):
            raise StreamerError(
                f"port {own.http_port} is taken; give --http HOST:PORT another one"
            ) from error
        port = side_port(engine, replace(own, http_port=0))
        await port.start()
    return port


def _announce(engine: Engine, own: StreamerSection, port: SidePort) -> None:
    print(
        f"streaming {engine.source.describe()} to {own.queue}"
        f" (http http://{own.http_host}:{port.port}, state {engine.path}"
        f"{', going on where it stopped' if engine.resumed else ''})",
        flush=True,
    )
    if not _is_loopback(own.http_host):
        log.warning(
            "uploads can be sent from other machines and nobody is asked for a password",
            host=own.http_host,
        )


def _stop_on_signals(engine: Engine) -> None:
    """The first signal stops in good order, the second at once."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        log.info("stopping")
        engine.stop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
        if number is signal.SIGINT:
            print("waiting for acknowledgements; Ctrl-C again stops at once", file=sys.stderr)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)


def _is_endless(engine: Engine, own: StreamerSection) -> bool:
    """Whether a stop is the only way for it to end, and so no failure."""
    endless_kinds = ("sim://", "nvml://", "exporter://")
    named = (own.source or "").startswith(endless_kinds)
    return engine.source.live or own.loop or own.follow or named


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
