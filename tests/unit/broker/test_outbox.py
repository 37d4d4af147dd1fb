"""Buffers and file slices leave in order, over a socket that takes them bit by bit."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

from nexus.broker.outbox import Outbox, Part
from nexus.log.files import FileSlice, OpenFile


async def drain_through(parts: list[Part], expected: int) -> tuple[bytes, list[str]]:
    sender, receiver = socket.socketpair()
    sender.setblocking(False)
    receiver.setblocking(False)
    events: list[str] = []
    loop = asyncio.get_running_loop()
    outbox = Outbox(
        sender, loop, lambda: events.append("drained"), lambda e: events.append(f"error {e}")
    )
    outbox.send(parts)
    received = b""
    while len(received) < expected:
        try:
            async with asyncio.timeout(1.0):
                received += await loop.sock_recv(receiver, 1 << 16)
        except TimeoutError:
            break
    outbox.close()
    sender.close()
    receiver.close()
    return received, events


def slice_of(path: Path, content: bytes, position: int, size: int) -> FileSlice:
    path.write_bytes(content)
    return FileSlice(OpenFile(path, os.O_RDONLY), position, size)


def test_buffers_and_slices_keep_their_order(tmp_path: Path) -> None:
    content = os.urandom(1 << 20)
    piece = slice_of(tmp_path / "log", content, 100, 900_000)
    tail = memoryview(b"tail")
    parts: list[Part] = [b"head", bytearray(b"more"), piece, tail, bytes(500_000)]
    expected = b"headmore" + content[100:900_100] + b"tail" + bytes(500_000)
    received, events = asyncio.run(drain_through(parts, len(expected)))
    assert received == expected
    assert events == ["drained"]


def test_a_slice_outlives_the_deletion_of_its_file(tmp_path: Path) -> None:
    piece = slice_of(tmp_path / "log", b"x" * 200_000, 0, 200_000)
    (tmp_path / "log").unlink()
    received, _ = asyncio.run(drain_through([piece], 200_000))
    assert received == b"x" * 200_000


def test_a_slice_beyond_the_end_of_its_file_is_an_error_not_a_hang(tmp_path: Path) -> None:
    piece = slice_of(tmp_path / "log", b"x" * 100, 0, 200)
    received, events = asyncio.run(drain_through([piece], 200))
    assert received == b"x" * 100
    assert [event.split()[0] for event in events] == ["error"]


def test_a_peer_that_is_gone_is_an_error(tmp_path: Path) -> None:
    async def story() -> list[str]:
        sender, receiver = socket.socketpair()
        sender.setblocking(False)
        receiver.close()
        events: list[str] = []
        outbox = Outbox(
            sender, asyncio.get_running_loop(), lambda: None, lambda e: events.append(str(e))
        )
        outbox.send([b"hello"])
        outbox.close()
        sender.close()
        return events

    assert len(asyncio.run(story())) == 1
