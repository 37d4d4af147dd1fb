"""Responses leave in the order of their requests, and every bound stops the reading."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from nexus.broker.connection import Connection, ConnectionLimits, Slot


class EchoHost:
    """Keeps each request's slot; the test says when it is answered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ConnectionLimits) -> None:
        self.loop = loop
        self.limits = limits
        self.scratch = memoryview(bytearray(4096))
        self.slots: list[tuple[bytes, Slot]] = []
        self.held = 0
        self.budget = 1 << 30
        self.is_closed = False
        self.refusals: list[str] = []

    def handle(self, connection: Connection, frame: memoryview) -> None:
        self.slots.append((bytes(frame), connection.expect()))

    def hold(self, connection: Connection, grown_bytes: int) -> bool:
        self.held += grown_bytes
        return grown_bytes <= 0 or self.held <= self.budget

    def now(self) -> float:
        return self.loop.time()

    def closed(self, connection: Connection) -> None:
        self.is_closed = True

    def refused(self, connection: Connection, why: str) -> None:
        self.refusals.append(why)


class Pair:
    """A client's socket and the connection that serves it."""

    def __init__(self, **limits: int) -> None:
        bounds = {"frame_bytes_max": 1 << 20, "in_flight_max": 8, "queued_bytes_max": 1 << 20}
        self.client, served = socket.socketpair()
        served.setblocking(False)
        self.client.settimeout(5)
        loop = asyncio.get_running_loop()
        self.host = EchoHost(loop, ConnectionLimits(**(bounds | limits)))
        self.connection = Connection(self.host, served, "test:1")
        self.connection.start()

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.client.sendall(len(body).to_bytes(4, "big") + body)

    def close(self) -> None:
        self.connection.close()
        self.client.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_answers_keep_the_order_of_their_requests() -> None:
    async def story() -> None:
        pair = Pair()
        pair.send(b"first", b"second")
        await until(lambda: len(pair.host.slots) == 2)
        pair.host.slots[1][1].fill([b"2"])
        await asyncio.sleep(0.01)
        pair.host.slots[0][1].fill([b"1"])
        assert await asyncio.to_thread(pair.client.recv, 10) == b"12"
        pair.close()

    run(story())


def test_reading_stops_at_the_limit_of_requests_in_flight() -> None:
    async def story() -> None:
        pair = Pair(in_flight_max=2)
        pair.send(*[str(n).encode() for n in range(6)])
        await until(lambda: len(pair.host.slots) == 2)
        await asyncio.sleep(0.02)
        assert len(pair.host.slots) == 2
        for number in range(6):
            await until(lambda number=number: len(pair.host.slots) > number)
            pair.host.slots[number][1].fill([b"."])
        assert [body for body, _ in pair.host.slots] == [b"0", b"1", b"2", b"3", b"4", b"5"]
        pair.close()

    run(story())


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def story() -> None:
        pair = Pair(queued_bytes_max=100_000)
        pair.send(b"a")
        await until(lambda: len(pair.host.slots) == 1)
        pair.host.slots[0][1].fill([bytes(8 << 20)])
        await until(lambda: pair.connection.queued_bytes > 100_000)
        pair.send(b"b", b"c")
        await asyncio.sleep(0.02)
        served = len(pair.host.slots)
        assert served <= 2
        received = 0
        while received < 8 << 20:
            received += len(await asyncio.to_thread(pair.client.recv, 1 << 20))
        await until(lambda: len(pair.host.slots) == 3)
        pair.close()

    run(story())


def test_rubbish_costs_a_client_its_connection() -> None:
    async def story() -> None:
        pair = Pair()
        pair.client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: pair.host.is_closed)
        assert "bytes" in pair.host.refusals[0]
        assert await asyncio.to_thread(pair.client.recv, 10) == b""
        pair.close()

    run(story())


def test_memory_of_an_unfinished_frame_is_given_back_on_close() -> None:
    async def story() -> None:
        pair = Pair()
        pair.client.sendall((500_000).to_bytes(4, "big") + bytes(1000))
        await until(lambda: pair.host.held > 0)
        assert pair.connection.frame_began_at is not None
        pair.client.close()
        await until(lambda: pair.host.is_closed)
        assert pair.host.held == 0

    run(story())


def test_a_spent_memory_budget_pauses_a_connection_until_it_is_resumed() -> None:
    async def story() -> None:
        pair = Pair()
        pair.host.budget = 10
        body = bytes(200_000)
        sending = asyncio.create_task(asyncio.to_thread(pair.send, body))
        await until(lambda: pair.host.held > 0)
        await asyncio.sleep(0.02)
        assert not pair.host.slots
        pair.host.budget = 1 << 30
        pair.connection.resume()
        await until(lambda: len(pair.host.slots) == 1)
        await sending
        pair.close()

    run(story())
