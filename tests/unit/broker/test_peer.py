"""The way to another broker finds out by itself that the broker was restarted."""

from __future__ import annotations

import asyncio

from nexus.broker.peer import Peer
from nexus.wire.apis import APIS, ApiKey
from nexus.wire.frames import encode_response
from nexus.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

VERSION = 0
PATIENCE_SECONDS = 20.0


class Restarting:
    """A broker that answers one question, and hangs up."""

    def __init__(self) -> None:
        self.hung_up = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        number = int.from_bytes((await reader.readexactly(size))[4:8])
        api = APIS[ApiKey.API_VERSIONS]
        for piece in encode_response(api, VERSION, number, ApiVersionsResponse()):
            assert isinstance(piece, bytearray | memoryview)
            writer.write(piece)
        writer.close()
        await writer.wait_closed()
        self.hung_up.set()


def test_a_question_after_a_restart_is_not_asked_in_vain() -> None:
    async def ask_twice() -> list[int]:
        broker = Restarting()
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        peer = Peer(host, port, "test")
        answers = []
        for _ in range(2):
            broker.hung_up.clear()
            request = ApiVersionsRequest()
            answer = await peer.ask(ApiKey.API_VERSIONS, VERSION, request, PATIENCE_SECONDS)
            answers.append(answer.error_code)
            await broker.hung_up.wait()
            await asyncio.sleep(0.01)  # a turn of the loop, for the end to be heard of
        peer.close()
        server.close()
        return answers

    assert asyncio.run(ask_twice()) == [0, 0]
