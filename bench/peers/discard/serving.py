"""Runs a discarding server in a process of its own for as long as it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Final

import uvloop

from nexus.bench.clients import BenchFailed
from nexus.bench.discard_process import discard_server

_START_S: Final = 60.0
PROTOCOLS: Final = {"redis": "Resp", "nats": "Nats", "amqp": "Amqp", "mqtt": "Mqtt"}


@contextmanager
def discarding(client: str, lanes: int) -> Iterator[tuple[str, str]]:
    """Address and name of a place where a client's messages vanish."""
    if client == "kafka":
        with discard_server(lanes) as found:
            yield found
        return
    context = get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_main, args=(client, theirs), daemon=True)
    process.start()
    try:
        if not mine.poll(_START_S):
            raise BenchFailed("the discarding server did not start")
        yield f"127.0.0.1:{mine.recv()}", "discard"
    finally:
        process.terminate()
        process.join(10)


def _main(client: str, pipe: Pipe) -> None:
    if client == "etcd":
        from peers.discard.etcd import serve  # noqa: PLC0415 - only this one needs gRPC

        serve(pipe.send)
        return
    module = import_module(f"peers.discard.{client}")
    uvloop.run(_serve(getattr(module, PROTOCOLS[client]), pipe))


async def _serve(protocol: Callable[[], asyncio.Protocol], pipe: Pipe) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()
