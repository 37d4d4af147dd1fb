"""Runs one proxy in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import orjson
import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nexus.observe.logs import configure, get_logger
from nexus.proxy.app import App
from nexus.proxy.proxy import Proxy
from nexus.settings.changes import Follow
from nexus.settings.proxy import ProxySection, ProxySettings
from nexus.web.problems import MEDIA_TYPE, Overloaded
from nexus.web.serving import Server, listen, url_of

KEEP_ALIVE_S: Final = 75
HEAD_S: Final = 10.0
# A batch of messages is tens of thousands of objects, none of them garbage until it is answered.
GC_THRESHOLDS: Final = (50_000, 20, 100)

log = get_logger(__name__)


def run(settings: ProxySettings, *, follow: Follow[ProxySettings] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. With `follow` the log level may change."""
    own = settings.proxy
    configure(own.log_level, form=own.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    listener = listen(own.host, own.port)
    with (
        listener,
        nullcontext() if follow is None else follow(settings, _take_up),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(own, listener))
    return 0


def _take_up(changed: ProxySettings) -> None:
    configure(changed.proxy.log_level, form=changed.proxy.log_format)


async def _serve(own: ProxySection, listener: socket.socket) -> None:
    proxy = Proxy(own)
    config = uvicorn.Config(
        App(proxy),
        http=bounded_protocol(own.connections),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, own.grace_ms // 1000),
    )
    announce = partial(_announce, own, listener)
    await Server(config, announce, proxy.end_streams).serve_on(listener)


def bounded_protocol(connections: int) -> type[HttpToolsProtocol]:
    """HTTP as uvicorn speaks it, for so many connections; one that says nothing is let go."""

    class Bounded(HttpToolsProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections:
                self.transport.write(_full(connections))
                self.transport.close()
            else:
                self.loop.call_later(HEAD_S, self._check_begun)

        def _check_begun(self) -> None:
            begun: object = self.cycle
            if begun is None and not self.transport.is_closing():
                self.transport.close()

    return Bounded


def _full(connections: int) -> bytes:
    problem = Overloaded(f"{connections} connections are open")
    body = orjson.dumps(problem.document(""))
    lines = [
        "HTTP/1.1 503 Service Unavailable",
        f"Content-Type: {MEDIA_TYPE}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in problem.headers().items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _announce(own: ProxySection, listener: socket.socket) -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    print(f"proxy ready on {url_of(own.host, listener)}", flush=True)
    if own.open_to_network:
        log.warning(
            "the proxy can be reached from other machines and asks nobody for a password",
            host=own.host,
        )
