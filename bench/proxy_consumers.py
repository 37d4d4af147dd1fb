"""Consumers of the proxy that cost next to nothing themselves: the load of bench/proxy.py.

    python bench/proxy_consumers.py HOST PORT --topic T --group G --messages N
                                    [--consumers N] [--in-flight N] [--at-once N]

A consumer reads events from one socket and acknowledges over another: all that came since its last
acknowledgement was confirmed, or at most `--at-once` of them. It prints, as JSON, how many messages
were acknowledged, in which time, and what that cost this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import partial

import uvloop

_ID = re.compile(rb"^id: (\S+)\n", re.MULTILINE)
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_EVENT_END = b"\n\n"
_MEMBER_CHARS = 33  # a dash and the member's name end an id


class Tally:
    """What all consumers have done so far."""

    def __init__(self, wanted: int, done: asyncio.Future[None]) -> None:
        self.confirmed: list[bytes] = []
        self.requests = 0
        self._wanted = wanted
        self._done = done

    def confirm(self, ids: list[bytes]) -> None:
        self.requests += 1
        self.confirmed += ids
        if len(self.confirmed) >= self._wanted and not self._done.done():
            self._done.set_result(None)

    def fail(self, why: str) -> None:
        if not self._done.done():
            self._done.set_exception(RuntimeError(why))


class Connection(asyncio.Protocol):
    """Keeps what came and was not read yet."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._pending = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is of no such class

    def connection_lost(self, error: Exception | None) -> None:
        self._tally.fail(f"the proxy hung up: {error}")

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)


class Acknowledgements(Connection):
    """One request at a time, with what came meanwhile in the next."""

    def __init__(self, tally: Tally, path: bytes, at_once: int) -> None:
        super().__init__(tally)
        self._head = b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n" % path
        self._at_once = at_once
        self._waiting: deque[bytes] = deque()
        self._sent: list[bytes] = []

    def put(self, ids: list[bytes]) -> None:
        self._waiting += ids
        if not self._sent:
            self._leave()

    def _leave(self) -> None:
        count = min(len(self._waiting), self._at_once)
        self._sent = [self._waiting.popleft() for _ in range(count)]
        if self._sent:
            body = b'{"ids":["%b"]}' % b'","'.join(self._sent)
            self.send(b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body))

    def data_received(self, data: bytes) -> None:
        self._pending += data
        head, found, body = self._pending.partition(_HEAD_END)
        length = _LENGTH.search(head + b"\r\n")
        if not found or length is None or len(body) < int(length[1]):
            return
        if not head.startswith(b"HTTP/1.1 200 ") or b'"not_held":[]' not in body:
            self._tally.fail(f"refused: {self._pending[:500]!r}")
            return
        self._pending = b""
        self._tally.confirm(self._sent)
        self._leave()


class Events(Connection):
    """Finds the ids in what comes; the rest is for nobody here."""

    def __init__(self, tally: Tally, path: bytes, acknowledgements: Acknowledgements) -> None:
        super().__init__(tally)
        self._path = path
        self._acknowledgements = acknowledgements

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(b"GET %b HTTP/1.1\r\nHost: bench\r\n\r\n" % self._path)

    def data_received(self, data: bytes) -> None:
        whole, _, self._pending = (self._pending + data).rpartition(_EVENT_END)
        ids = _ID.findall(whole)
        if ids:
            self._acknowledgements.put(ids)


async def consume(asked: argparse.Namespace) -> dict[str, float]:
    """Take and acknowledge as many as were asked for."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    tally = Tally(asked.messages, done)
    place = f"?topic={asked.topic}&group={asked.group}"
    events = f"/consume{place}&max_in_flight={asked.in_flight}".encode()
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(asked.consumers):
        acks = Acknowledgements(tally, f"/ack{place}".encode(), asked.at_once)
        await loop.create_connection(partial(_same, acks), asked.host, asked.port)
        await loop.create_connection(partial(Events, tally, events, acks), asked.host, asked.port)
    async with asyncio.timeout(asked.limit):
        await done
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    places = {one[:-_MEMBER_CHARS] for one in tally.confirmed}
    if len(places) != len(tally.confirmed):
        raise RuntimeError(f"{len(tally.confirmed) - len(places)} were confirmed twice")
    return {
        "messages": len(places),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "requests": tally.requests,
    }


def _same(connection: Connection) -> Connection:
    return connection


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--consumers", type=int, default=10)
    parser.add_argument("--in-flight", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=1_000)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds")
    print(json.dumps(uvloop.run(consume(parser.parse_args(arguments)))))


if __name__ == "__main__":
    main(sys.argv[1:])
