"""Many consumers at one proxy, and one that never reads: memory stays where it is."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.broker import BrokerProcess
from support.proxies import ProxyProcess
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

MB = 1 << 20
CROWD = 1_000
CROWD_BYTES_MAX = 300 * MB
FEW = 100
FEW_BYTES_MAX = 128 * MB


@pytest.fixture
def own(broker: BrokerProcess, tmp_path: Path) -> Iterator[ProxyProcess]:
    """A proxy whose memory nobody else has filled."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8_192), most))
    made = ProxyProcess(tmp_path / "own", broker.bootstrap)
    try:
        yield made.start()
        assert "Traceback" not in made.said
    finally:
        made.stop()


class Listener:
    """One consumer of events that acknowledges nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def message(self) -> dict[str, Any]:
        """The next one."""
        while line := await self._reader.readline():
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        raise AssertionError("the stream ended")


async def listen(port: int, topic: str, group: str) -> Listener:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = f"/consume?topic={topic}&group={group}&max_in_flight=1"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return Listener(reader, writer)


def test_a_thousand_consumers_each_get_their_message(own: ProxyProcess) -> None:
    """Ten groups of a hundred: in each, every message comes once."""
    items = [{"payload": n} for n in range(FEW)]
    assert own.post("/produce/batch?topic=crowd", json=items).is_success

    async def all_of_them() -> None:
        listeners: list[Listener] = []
        for number in range(CROWD):
            group = f"crowd-{number // FEW}"
            listeners.append(await listen(own.port, "crowd", group))
            if number + 1 == FEW:
                assert own.rss_bytes() < FEW_BYTES_MAX
        messages = await asyncio.gather(*(one.message() for one in listeners))
        for at in range(0, CROWD, FEW):
            payloads = [message["payload"] for message in messages[at : at + FEW]]
            assert sorted(payloads) == list(range(FEW))
        assert own.get("/status").json()["consumers"] == CROWD
        used = own.rss_bytes()
        print(f"{CROWD} consumers: {used / MB:.0f} MB")
        assert used < CROWD_BYTES_MAX
        for one in listeners:
            one.writer.close()

    asyncio.run(all_of_them())
    wait_until(lambda: own.get("/status").json()["consumers"] == 0, within=60, what="all to leave")


def test_a_consumer_that_never_reads_grows_no_memory_and_holds_up_nobody(
    own: ProxyProcess,
) -> None:
    wanted = {"name": "unread", "partitions": 1}
    assert own.post("/topics", json=wanted).is_success
    items = [{"payload": "x" * 10_000} for _ in range(1_000)]
    for _ in range(4):
        assert own.post("/produce/batch?topic=unread", json=items).is_success
    before = own.rss_bytes()
    with socket.create_connection(("127.0.0.1", own.port)) as sock:
        path = b"/consume?topic=unread&group=deaf&max_in_flight=10000"
        sock.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        sock.recv(1)  # it is served, and takes nothing more
        for number in range(20):  # meanwhile others are
            own.produce("beside", number)
            _, taken = _poll(own, "unread", "other")
            assert taken
        grown = own.rss_bytes() - before
        print(f"a deaf consumer of 40 MB: {grown / MB:.0f} MB more")
        assert grown < 20 * MB


def _poll(proxy: ProxyProcess, topic: str, group: str) -> tuple[dict[str, str], list[Any]]:
    params = {"topic": topic, "group": group}
    answer = proxy.get("/poll", params={**params, "max": 10, "wait": "20s"})
    assert answer.status_code == 200, answer.text
    messages = answer.json()["messages"]
    ids = [message["id"] for message in messages]
    assert proxy.post("/ack", params=params, json={"ids": ids}).is_success
    return params, messages
