"""A side port answers honest clients properly and costs little under the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from nexus.observe.http import JSON, TEXT, Response, Route, SideLimits, SidePort
from nexus.observe.metrics import Registry
from nexus.observe.pages import json_page, metrics_page

QUICK = SideLimits(head_bytes=1024, connections=2, request_s=0.2, response_s=1.0)


def hello() -> Response:
    return Response(200, TEXT, b"hello\n")


async def slow_hello() -> Response:
    await asyncio.sleep(0)
    return hello()


def broken() -> Response:
    raise RuntimeError("a page that fails")


@asynccontextmanager
async def side_port(limits: SideLimits | None = None) -> AsyncIterator[SidePort]:
    routes: dict[str, Route] = {"/": hello, "/slow": slow_hello, "/broken": broken}
    port = SidePort("127.0.0.1", 0, routes, limits)
    await port.start()
    try:
        yield port
    finally:
        await port.stop()


async def exchange(port: SidePort, request: bytes, *, half_close: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write(request)
    if half_close:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await story()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_a_page_is_served_with_its_type_and_length() -> None:
    async def story() -> None:
        async with side_port() as port:
            head, _, body = (await exchange(port, get("/?x=1"))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Type: text/plain; charset=utf-8" in head
        assert b"Content-Length: 6" in head
        assert b"Connection: close" in head
        assert body == b"hello\n"

    run(story)


def test_head_has_the_length_but_not_the_body() -> None:
    async def story() -> None:
        async with side_port() as port:
            answer = await exchange(port, get("/", "HEAD"))
        assert answer.endswith(b"\r\n\r\n")
        assert b"Content-Length: 6" in answer

    run(story)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 200),
        (get("/slow"), 200),
        (get("http://x/slow?y"), 200),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (get("/nothing"), 404),
        (get("//x"), 200),
        (get("/", "POST"), 405),
        (get("/", "BREW"), 405),
        (get("/broken"), 500),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"\x00\x00\x00\x12\x00\x03\xff\xfe\r\n\r\n", 400),
        (b"GET http://[x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / FTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        (b"x" * 100_000, 431),
    ],
)
def test_every_request_gets_its_proper_status(request_bytes: bytes, status: int) -> None:
    async def story() -> None:
        async with side_port() as port:
            answer = await exchange(port, request_bytes)
        assert answer.split(b" ")[1] == str(status).encode()
        assert (b"Allow: GET, HEAD" in answer) == (status == 405)

    run(story)


@pytest.mark.parametrize(("request_bytes", "status"), [(get("/slow"), b"200"), (b"GET /", b"400")])
def test_a_client_that_half_closes_still_gets_its_answer(
    request_bytes: bytes, status: bytes
) -> None:
    async def story() -> None:
        async with side_port() as port:
            answer = await exchange(port, request_bytes, half_close=True)
            assert answer.split(b" ")[1] == status
            await until(lambda: not port.connections)

    run(story)


def test_a_request_may_come_in_pieces() -> None:
    async def story() -> None:
        async with side_port() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            for byte in get("/"):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await reader.read()).endswith(b"hello\n")
            writer.close()

    run(story)


def test_an_unfinished_request_is_ended_in_time() -> None:
    async def story() -> None:
        async with side_port(QUICK) as port:
            assert b" 408 " in await exchange(port, b"GET / HTTP/1.1\r\nHo")
            assert await exchange(port, b"") == b""
            await until(lambda: not port.connections)

    run(story)


def test_a_client_that_never_closes_is_cut_off() -> None:
    async def story() -> None:
        limits = SideLimits(response_s=0.1)
        async with side_port(limits) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(get("/"))
            await until(lambda: len(port.connections) == 1)
            await until(lambda: not port.connections)
            writer.close()

    run(story)


def test_more_connections_than_allowed_are_refused_and_the_others_served() -> None:
    async def story() -> None:
        limits = SideLimits(connections=2)
        async with side_port(limits) as port:
            held = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(2)]
            await until(lambda: len(port.connections) == 2)
            assert b" 503 " in await exchange(port, b"")
            held[0][1].write(get("/"))
            assert (await held[0][0].read()).endswith(b"hello\n")
            for _, writer in held:
                writer.close()
            await until(lambda: not port.connections)
            assert b" 200 " in await exchange(port, get("/"))

    run(story)


def test_stopping_closes_every_connection_and_may_be_repeated() -> None:
    async def story() -> None:
        async with side_port() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            await until(lambda: len(port.connections) == 1)
            await port.stop()
            await port.stop()
            assert await ended(reader)
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", port.port)
            writer.close()

    run(story)


def test_a_page_that_is_being_made_does_not_outlive_the_port() -> None:
    cancelled = asyncio.Event()

    async def endless() -> Response:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return hello()

    async def story() -> None:
        port = SidePort("127.0.0.1", 0, {"/": endless})
        await port.start()
        _, writer = await asyncio.open_connection("127.0.0.1", port.port)
        writer.write(get("/"))
        await until(lambda: any(c._task for c in port.connections))
        await asyncio.sleep(0)
        await port.stop()
        assert cancelled.is_set()
        writer.close()

    run(story)


def test_metrics_and_facts_are_pages() -> None:
    async def story() -> None:
        registry = Registry()
        registry.counter("nexus_messages_total", "Messages.").labels().inc(7)
        well: list[bool] = [True]
        routes = {
            "/metrics": metrics_page(registry),
            "/health": json_page(lambda: (well[0], {"live": True})),
        }
        port = SidePort("127.0.0.1", 0, routes)
        await port.start()
        metrics = await exchange(port, get("/metrics"))
        assert b"version=0.0.4" in metrics
        assert b"nexus_messages_total 7.0\n" in metrics
        health = await exchange(port, get("/health"))
        assert JSON.encode() in health
        assert json.loads(health.partition(b"\r\n\r\n")[2]) == {"live": True}
        well[0] = False
        assert b" 503 " in await exchange(port, get("/health"))
        await port.stop()

    run(story)


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition is the port's own state
            await asyncio.sleep(0.005)
