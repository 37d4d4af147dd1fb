"""Runs one gateway in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

import uvicorn
import uvloop

from nexus.gateway.app import create_app
from nexus.gateway.errors import GatewayError
from nexus.gateway.gateway import Gateway, build_gateway
from nexus.gateway.protocol import GatewayProtocol
from nexus.observe.logs import configure, get_logger
from nexus.settings.changes import Follow
from nexus.settings.gateway import GatewaySection, GatewaySettings

BACKLOG: Final = 2048
KEEP_ALIVE_S: Final = 30

log = get_logger(__name__)


def run(settings: GatewaySettings, *, follow: Follow[GatewaySettings] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. With `follow` the log level may change."""
    own = settings.gateway
    configure(own.log_level, form=own.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    listener = listen(own.host, own.port)
    with listener, nullcontext() if follow is None else follow(settings, _take_up):
        gateway = build_gateway(own)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_serve(gateway, listener))
        finally:
            gateway.store.close()
    return 0


def _take_up(changed: GatewaySettings) -> None:
    configure(changed.gateway.log_level, form=changed.gateway.log_format)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; a port that is taken is one clear line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            said = f"port {port} is taken; give --port another one"
        else:
            said = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise GatewayError(said) from error


async def _serve(gateway: Gateway, listener: socket.socket) -> None:
    config = uvicorn.Config(
        create_app(gateway),
        http=GatewayProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, gateway.settings.grace_ms // 1000),
    )
    server = _Server(config, gateway)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.end)
    await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it is ready, and ends streams before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway

    def end(self) -> None:
        """The first signal stops in good order, the second at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The loop handles signals: a stop that was asked for ends with success."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            _announce(self._gateway.settings, sockets[0])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping")
        await self._gateway.end_streams()
        await super().shutdown(sockets)


def _announce(own: GatewaySection, listener: socket.socket) -> None:
    host = f"[{own.host}]" if ":" in own.host else own.host
    port = listener.getsockname()[1]
    print(f"gateway ready on http://{host}:{port}", flush=True)
    if own.open_to_network:
        log.warning(
            "the gateway can be reached from other machines and asks nobody for a password",
            host=own.host,
        )
