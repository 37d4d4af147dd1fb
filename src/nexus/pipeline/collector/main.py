"""Runs one collector in this process: signals, the side port and what is shown beside the work."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace

from nexus.observe.http import SidePort
from nexus.observe.logs import configure, get_logger
from nexus.pipeline.collector.display import json_line, show
from nexus.pipeline.collector.report import summary_of
from nexus.pipeline.collector.run import Collector
from nexus.pipeline.collector.side_port import side_port
from nexus.pipeline.errors import PipelineError
from nexus.settings.changes import Follow
from nexus.settings.collector import CollectorSection, CollectorSettings

log = get_logger(__name__)


def run(
    settings: CollectorSettings,
    *,
    as_json: bool = False,
    follow: Follow[CollectorSettings] | None = None,
) -> int:
    """Collect until SIGTERM or SIGINT, or the end with `available_now`; 0 if nothing failed.

    With `follow`, log level and retention change while it runs.
    """
    _set_logs(settings.collector)
    collector = Collector(settings.collector)

    def take_up(changed: CollectorSettings) -> None:
        _set_logs(changed.collector)
        collector.take_up(changed.collector)

    with nullcontext() if follow is None else follow(settings, take_up):
        facts = asyncio.run(_collect(collector, settings, as_json))
    view = collector.progress.view()
    print(json_line(view, facts) if as_json else summary_of(view), flush=True)
    return 0


def _set_logs(own: CollectorSection) -> None:
    configure(own.log_level, form=own.log_format)
    # A queue that is away is told once, not by every attempt.
    quiet = logging.NOTSET if own.log_level == "debug" else logging.CRITICAL
    logging.getLogger("nexus.queue.client").setLevel(quiet)


async def _collect(
    collector: Collector, settings: CollectorSettings, as_json: bool
) -> dict[str, str]:
    port = await _listen(collector, settings)
    _stop_on_signals(collector)
    facts = {"collector": collector.own.name, "http": _address(port)}
    display = asyncio.create_task(show(collector.progress.view, as_json=as_json, facts=facts))
    announce = asyncio.create_task(_announce(collector, port, as_json))
    try:
        await _in_thread(collector.run)
    finally:
        for task in (display, announce):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await port.stop()
    return facts


def _address(port: SidePort) -> str:
    host = f"[{port.host}]" if ":" in port.host else port.host
    return f"http://{host}:{port.port}"


async def _in_thread(work: Callable[[], None]) -> None:
    """A thread that may outlive a second Ctrl-C: the process does not wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def call() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            loop.call_soon_threadsafe(tell, error)
        else:
            loop.call_soon_threadsafe(tell, None)

    threading.Thread(target=call, name="collector", daemon=True).start()
    await done


async def _listen(collector: Collector, settings: CollectorSettings) -> SidePort:
    """Open the side port; several collectors share a machine, so only a chosen one must be free."""
    own = settings.collector
    port = side_port(collector, own)
    try:
        await port.start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        if settings.is_given("collector.http_port"):
            raise PipelineError(
                f"port {own.http_port} is taken; give --http HOST:PORT another one"
            ) from error
        port = side_port(collector, replace(own, http_port=0))
        await port.start()
    return port


async def _announce(collector: Collector, port: SidePort, as_json: bool) -> None:
    while not collector.ready.is_set():  # noqa: ASYNC110 - set by another thread
        await asyncio.sleep(0.05)
    if as_json:
        return
    own, view = collector.own, collector.progress.view()
    print(
        f"collector ready: {collector.queue} to {', '.join(s.url for s in collector.stores)}"
        f" (http {_address(port)}, Spark {own.master or f'local[{own.cores}]'},"
        f" {view.at - view.began_at:.1f} s)",
        flush=True,
    )


def _stop_on_signals(collector: Collector) -> None:
    """The first signal stops after the running batch, the second at once."""
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if not collector.is_stopping and number is signal.SIGINT:
            print("ending after the running batch; Ctrl-C again ends at once", file=sys.stderr)
        collector.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
