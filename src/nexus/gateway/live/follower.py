"""Follows the queue in a thread of its own, for all clients: messages in, blocks of readings out.

What comes together is decoded together, and blocks follow each other only so fast, since most of
a small block's cost is the block. The first message after a silence waits for nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, Protocol

from nexus.gateway.live.columns import LIVE_SCHEMA
from nexus.gateway.live.messages import pieces, table_of
from nexus.gateway.live.metrics import LiveMetrics
from nexus.gateway.live.position import Position
from nexus.gateway.live.ring import Block, Gap
from nexus.observe.logs import get_logger
from nexus.queue.port import Received, Tail

GATHER_S: Final = 0.03
AWAY_AFTER_S: Final = 1.0
_POLL_S: Final = 0.2
_AGAIN_S: Final = 1.0
_MESSAGES_MAX: Final = 20_000
_BYTES_MAX: Final = 32 << 20
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """Whether the queue answers, since when, and why not."""

    queue: Literal["ok", "away"]
    time_ms: int
    detail: str = ""


class Listener(Protocol):
    """Is told in the follower's thread, in the order in which things happen."""

    def opened(self, start: Position) -> None:
        """The queue is followed from here on; what was before is of no use any more."""

    def changed(self, status: Status) -> None: ...
    def came(self, block: Block) -> None: ...


class Follower:
    """One thread, from `start` to `stop`."""

    def __init__(
        self,
        open_tail: Callable[[], Tail],
        listener: Listener,
        metrics: LiveMetrics,
        *,
        gather_s: float = GATHER_S,
        away_after_s: float = AWAY_AFTER_S,
        health_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_tail, self._listener, self._metrics = open_tail, listener, metrics
        self._gather_s, self._away_after_s = gather_s, away_after_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-tail", daemon=True)
        self._status: Status | None = None
        self._health_clock = health_clock
        self._well_at = health_clock()
        self._told_at = 0.0
        self._at: dict[int, int] = {}
        self._seen_ms = 0
        self._skipped = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; `join` waits for that."""
        self._stop.set()

    def join(self, within_s: float = 10.0) -> None:
        if self._thread.ident is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - told to the clients, and tried again
                log.warning("the queue cannot be followed; trying again", why=str(error))
                self._change(Status("away", _now_ms(), str(error)))
                self._stop.wait(_AGAIN_S)

    def _follow(self) -> None:
        tail = self._open_tail()
        self._at, self._skipped = {}, 0
        try:
            self._look_at_health(tail, came=False)
            while not self._stop.is_set():
                messages = self._gathered(tail)
                self._look_at_health(tail, came=bool(messages))
                self._tell(messages, self._gap(tail, messages))
        finally:
            tail.close()

    def _gathered(self, tail: Tail) -> Sequence[Received]:
        """What has come; while much comes, what comes in the time between two blocks."""
        if not self._at and tail.positions():
            self._open(tail, ())
        messages = [*tail.poll(_POLL_S)]
        size = 0
        while messages and len(messages) < _MESSAGES_MAX and size < _BYTES_MAX:
            left = self._told_at + self._gather_s - time.monotonic()
            more = tail.poll(max(left, 0.0))
            messages += more
            size += sum(len(message.value) for message in more)
            if left <= 0 or self._stop.is_set():
                break
        return messages

    def _gap(self, tail: Tail, messages: Sequence[Received]) -> Gap | None:
        """What is missing before these messages, if anything is."""
        if not self._at:
            self._open(tail, messages)
        before = _before(tail, messages)
        passed, self._skipped = tail.skipped - self._skipped, tail.skipped
        is_back = any(before.get(p, at) < at for p, at in self._at.items())
        self._at |= before
        if passed > 0:
            self._metrics.skipped.inc(passed)
            reason = f"the gateway fell behind and passed over about {passed} messages"
            return Gap(self._seen_ms, _now_ms(), reason)
        return Gap(self._seen_ms, _now_ms(), "the queue lost messages") if is_back else None

    def _open(self, tail: Tail, messages: Sequence[Received]) -> None:
        self._at = _before(tail, messages)
        if self._at:
            self._seen_ms = _now_ms()
            self._listener.opened(self._position())

    def _tell(self, messages: Sequence[Received], gap: Gap | None) -> None:
        for piece in pieces(messages):
            table = table_of(piece, self._metrics)
            self._at |= {message.partition: message.offset + 1 for message in piece}
            self._tell_block(Block(table, self._position(), time.monotonic(), gap))
            gap = None
        if gap is not None:
            nothing = LIVE_SCHEMA.empty_table()
            self._tell_block(Block(nothing, self._position(), time.monotonic(), gap))

    def _tell_block(self, block: Block) -> None:
        self._told_at, self._seen_ms = block.made_at, block.end.time_ms
        self._listener.came(block)

    def _position(self) -> Position:
        return Position(_now_ms(), MappingProxyType(dict(self._at)))

    def _look_at_health(self, tail: Tail, *, came: bool) -> None:
        """A problem counts when it lasts: the client meets many that it puts right by itself."""
        now = self._health_clock()
        if came or not tail.problem:
            self._well_at = now
            if came or self._at or self._status is None:
                self._change(Status("ok", _now_ms()))
        elif now - self._well_at >= self._away_after_s or self._status is None:
            self._change(Status("away", _now_ms(), tail.problem))

    def _change(self, status: Status) -> None:
        if self._status is None or self._status.queue != status.queue:
            self._status = status
            self._listener.changed(status)


def _before(tail: Tail, messages: Sequence[Received]) -> dict[int, int]:
    """Where each partition was before these messages came."""
    before = dict(tail.positions())
    before |= {message.partition: message.offset for message in reversed(messages)}
    return before


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
