"""Runs one gateway in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import nullcontext
from functools import partial
from typing import Final

import uvicorn
import uvloop

from nexus.gateway.app import create_app
from nexus.gateway.gateway import Gateway, build_gateway
from nexus.gateway.protocol import GatewayProtocol
from nexus.observe.logs import configure, get_logger
from nexus.settings.changes import Follow
from nexus.settings.gateway import GatewaySection, GatewaySettings
from nexus.web.serving import Server, listen, url_of

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
    announce = partial(_announce, gateway.settings, listener)
    await Server(config, announce, gateway.end_streams).serve_on(listener)


def _announce(own: GatewaySection, listener: socket.socket) -> None:
    print(f"gateway ready on {url_of(own.host, listener)}", flush=True)
    if own.open_to_network:
        log.warning(
            "the gateway can be reached from other machines and asks nobody for a password",
            host=own.host,
        )
