"""What client processes do, whatever the protocol: send flat out, send at a rate, read, listen.

Messages begin with the time they were sent by the machine's monotonic clock, which processes of
one machine share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from nexus.bench.clients import STAMP, BenchFailed, in_processes
from peers.clients.port import Lanes, Receiver, Sender
from peers.systems import client_of

_CHUNK_BYTES: Final = 256 << 10
_QUIET_S: Final = 20.0
_LEAST_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Send:
    """For so long, or until so many; `rate` 0 is as fast as it goes."""

    client: str
    lanes: Lanes
    size: int
    seconds: float
    most: int
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Take:
    """So many messages, as consumer `number`; not for longer than that."""

    client: str
    lanes: Lanes
    number: int
    messages: int
    seconds: float
    listens: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """How one process fared: messages between two moments of the machine's clock."""

    messages: int
    began: float
    ended: float
    latencies_ns: tuple[int, ...] = ()
    """From the send to the receipt of each, in order of receipt."""
    by_lane: tuple[int, ...] = ()


def rate_of(done: Sequence[Done]) -> float:
    """All of them together, from the first beginning to the last end."""
    took = max(one.ended for one in done) - min(one.began for one in done)
    return sum(one.messages for one in done) / max(took, _LEAST_S)


def run_all(work: Sequence[Send | Take]) -> list[Done]:
    """Each in a process of its own; producers are connected before any begins."""
    return in_processes(run, list(work), opened=opened)


def opened(work: Send | Take) -> tuple[Send | Take, Sender | None]:
    """Consumers connect when their clock runs: some servers push as soon as they can."""
    client = client_of(work.client)
    return work, client.sender(work.lanes) if isinstance(work, Send) else None


def run(ready: tuple[Send | Take, Sender | None]) -> Done:
    work, connected = ready
    if isinstance(work, Take):
        return _take(work)
    assert connected is not None
    with _closing(connected) as sender:
        return (_send_at_rate if work.rate else _send_flat_out)(sender, work)


@contextmanager
def _closing(one: Any) -> Iterator[Any]:
    try:
        yield one
    finally:
        one.close()


def _send_flat_out(sender: Sender, work: Send) -> Done:
    """Chunks go to the lanes in turn; the clock ends when all are acknowledged."""
    chunk = max(1, min(client_of(work.client).chunk, _CHUNK_BYTES // work.size))
    values = [bytes(work.size)] * chunk
    by_lane = [0] * work.lanes.count
    sent = lane = 0
    began = time.monotonic()
    while sent < work.most and time.monotonic() - began < work.seconds:
        sender.send(values, lane)
        by_lane[lane] += chunk
        sent += chunk
        lane = (lane + 1) % work.lanes.count
    sender.flush()
    return Done(sent, began, time.monotonic(), by_lane=tuple(by_lane))


def _send_at_rate(sender: Sender, work: Send) -> Done:
    padding = bytes(max(work.size - STAMP.size, 0))
    total = min(work.most, int(work.rate * work.seconds))
    began = time.monotonic()
    for number in range(total):
        while (left := began + number / work.rate - time.monotonic()) > 0:
            sender.rest(left)
        stamp = STAMP.pack(time.monotonic_ns())
        sender.send([stamp + padding], number % work.lanes.count)
    sender.flush()
    return Done(total, began, time.monotonic())


def _take(work: Take) -> Done:
    began = time.monotonic()
    with _closing(client_of(work.client).receiver(work.lanes, work.number)) as receiver:
        return (_listen if work.listens else _read)(receiver, work, began)


def _read(receiver: Receiver, work: Take, began: float) -> Done:
    """From the connection to the last message."""
    count, ended = 0, began
    while count < work.messages and ended - began < work.seconds:
        values = receiver.receive(1.0)
        if values:
            count, ended = count + len(values), time.monotonic()
        elif time.monotonic() - ended > _QUIET_S:
            raise BenchFailed(f"only {count} of {work.messages} messages came")
    return Done(count, began, ended)


def _listen(receiver: Receiver, work: Take, began: float) -> Done:
    took: list[int] = []
    ended = began
    while len(took) < work.messages and time.monotonic() - ended < _QUIET_S + work.seconds:
        values = receiver.receive(1.0)
        now = time.monotonic_ns()
        took += [now - STAMP.unpack_from(value)[0] for value in values]
        ended = time.monotonic() if values else ended
    return Done(len(took), began, ended, tuple(took))
