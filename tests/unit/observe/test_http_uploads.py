"""The side port takes bodies piece by piece, within bounds, and outlives whoever sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from nexus.observe.http import TEXT, BadRequest, Response, SideLimits, SidePort, Upload

LIMITS = SideLimits(request_s=0.3, response_s=2.0)


class Sink:
    """Keeps a body; the word "bad" in it is refused."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.body = b""
        self.pieces = 0
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.pieces += 1
        self.body += data
        if b"bad" in self.body:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a bad word")

    async def finish(self) -> Response:
        await asyncio.sleep(0)
        if self.body == b"crash":
            raise RuntimeError("a sink that fails")
        return Response(200, TEXT, b"got %d\n" % len(self.body))

    def abort(self) -> None:
        self.aborted = True


@asynccontextmanager
async def side_port(limit: int = 100_000) -> AsyncIterator[tuple[SidePort, list[Sink]]]:
    sinks: list[Sink] = []

    def opened(headers: Mapping[str, str]) -> Sink:
        sinks.append(Sink(headers))
        return sinks[-1]

    uploads = {"/up": Upload(limit, opened)}
    port = SidePort("127.0.0.1", 0, {}, LIMITS, uploads)
    await port.start()
    try:
        yield port, sinks
    finally:
        await port.stop()


async def exchange(port: SidePort, *pieces: bytes, half_close: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.01)
    if half_close:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def head(length: int | str | None, extra: str = "", path: str = "/up") -> bytes:
    size = "" if length is None else f"Content-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{size}{extra}\r\n".encode()


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(bounded())


@pytest.mark.parametrize("pieces", [1, 3, 10])
def test_a_body_arrives_whole_however_it_is_cut(pieces: int) -> None:
    async def story() -> None:
        request = head(1000, "Content-Type: text/x\r\n") + b"x" * 1000
        step = -(-len(request) // pieces)
        cut = [request[at : at + step] for at in range(0, len(request), step)]
        async with side_port() as (port, sinks):
            answer = await exchange(port, *cut)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"got 1000\n")
        assert sinks[0].headers["content-type"] == "text/x"
        assert sinks[0].aborted, "what a sink holds is released after the answer"

    play(story)


def test_an_empty_body_is_a_body() -> None:
    async def story() -> None:
        async with side_port() as (port, _):
            assert (await exchange(port, head(0))).endswith(b"got 0\n")

    play(story)


def test_what_follows_the_body_is_not_part_of_it() -> None:
    async def story() -> None:
        async with side_port() as (port, sinks):
            assert (await exchange(port, head(3) + b"abcdef")).endswith(b"got 3\n")
        assert sinks[0].body == b"abc"

    play(story)


def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    async def story() -> None:
        async with side_port() as (port, _):
            answer = await exchange(port, head(3, "Expect: 100-continue\r\n"), b"abc")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")

    play(story)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (head(100_001), 413),
        (head("9" * 30), 413),
        (head(None), 411),
        (head(None, "Transfer-Encoding: chunked\r\n"), 411),
        (head("-1"), 400),
        (head("x"), 400),
        (head(3, path="/other"), 405),
        (b"GET /up HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"PUT /up HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (head(5) + b"a bad", 400),
        (head(5) + b"crash", 500),
    ],
)
def test_what_cannot_be_taken_is_refused_at_once(request_: bytes, status: int) -> None:
    async def story() -> None:
        async with side_port() as (port, _):
            answer = await exchange(port, request_)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())

    play(story)


def test_a_body_that_stops_coming_is_given_up() -> None:
    async def story() -> None:
        async with side_port() as (port, sinks):
            answer = await exchange(port, head(1000) + b"x")
            assert answer.startswith(b"HTTP/1.1 408 ")
        assert sinks[0].aborted

    play(story)


def test_a_body_that_ends_too_early_is_refused() -> None:
    async def story() -> None:
        async with side_port() as (port, sinks):
            answer = await exchange(port, head(1000) + b"x", half_close=True)
            assert answer.startswith(b"HTTP/1.1 400 ")
        assert sinks[0].aborted

    play(story)


def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    async def story() -> None:
        async with side_port() as (port, sinks):
            _, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(head(1000) + b"x")
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.transport.abort()
            await asyncio.sleep(0.05)
            assert sinks[0].aborted
            assert not port.connections

    play(story)
