"""etcd's Put over gRPC: an empty answer. The server is Python's too, so this is a lower bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc.aio


class _Puts(grpc.GenericRpcHandler):
    """Whatever is asked, the answer has no bytes."""

    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(_answer)


async def _answer(_: bytes, __: object) -> bytes:
    return b""


def serve(tell_port: Callable[[int], object]) -> None:
    """Until the process is ended."""
    asyncio.run(_serve(tell_port))


async def _serve(tell_port: Callable[[int], object]) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Puts(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    tell_port(port)
    await server.wait_for_termination()
