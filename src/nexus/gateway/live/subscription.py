"""One client's events: from where it was, then as they come, then as it can take them.

It holds a place in the ring and pulls. While it keeps up it gets every reading; when it is slow,
or asks for an interval, the newest of each series; what it cannot get it is told.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final

from nexus.gateway.live.position import Position, encode_position
from nexus.gateway.live.ring import Block, Gap, Ring
from nexus.gateway.live.stage import Stage
from nexus.store.port import Selection
from nexus.web import sse

Events = AsyncGenerator[bytes, None]
INTERVAL_MAX_S: Final = 10.0  # so long the ring holds what came, also of a large fleet


class Subscription(AsyncIterator[bytes]):
    """The events of one client; `aclose` when it has gone, safe to call twice."""

    def __init__(
        self,
        stage: Stage,
        which: Selection,
        wanted: Position | None,
        *,
        gap: Gap | None = None,
        interval_s: float = 0.0,
        on_close: Callable[[Subscription], None] = lambda _: None,
    ) -> None:
        self._stage, self._which = stage, which
        self._wanted, self._gap = wanted, gap
        self._interval_s = min(interval_s, INTERVAL_MAX_S)
        self._on_close = on_close
        self._news = asyncio.Event()
        self._place: int | None = None
        self._position = Position(0)
        self._whole_until = 0  # up to this place everything is given, however slow
        self._given_at = time.monotonic()
        self._events: Events | None = None  # until it is begun, nothing holds on to a client

    def wake(self) -> None:
        """Something has changed."""
        self._news.set()

    async def __anext__(self) -> bytes:
        if self._events is None:
            self._events = self._all()
        event = await anext(self._events)
        self._given_at = time.monotonic()
        self._stage.metrics.events.inc()
        self._stage.metrics.bytes.inc(len(event))
        return event

    async def aclose(self) -> None:
        self._on_close(self)
        if self._events is not None:
            await self._events.aclose()

    async def _all(self) -> Events:
        try:
            yield sse.OPENING
            status = None
            while not self._stage.is_stopped:
                self._news.clear()
                if self._stage.status is not None and self._stage.status is not status:
                    status = self._stage.status
                    facts = {"queue": status.queue, "detail": status.detail}
                    yield sse.facts("status", {**facts, "time": status.time_ms})
                place = self._place
                async with aclosing(self._due()) as due:
                    async for event in due:
                        yield event
                if place == self._place and await self._rested():
                    yield sse.heartbeat(self._id())
        except RuntimeError:
            if not self._stage.is_stopped:  # else the threads that serve have gone home
                raise
        finally:
            self._on_close(self)

    async def _rested(self) -> bool:
        """Wait for news; whether it was so long that a sign of life is due."""
        now = time.monotonic()
        beat_at = self._given_at + self._stage.paces.heartbeat_s
        until = min(beat_at, self._edge(now) + self._interval_s) if self._interval_s else beat_at
        with suppress(TimeoutError):
            async with asyncio.timeout(max(until - now, 0.0)):
                await self._news.wait()
        return time.monotonic() >= beat_at

    def _due(self) -> Events:
        """What can be given now; nothing if there is nothing new."""
        ring = self._stage.ring
        if ring is None:
            return _nothing()
        if self._place is None:
            return self._begin(ring)
        blocks = ring.after(self._place)
        if blocks is None:
            return self._fallen_behind(ring)
        is_whole = self._place < self._whole_until
        if self._interval_s and not is_whole:
            edge = self._edge(time.monotonic())
            blocks = [block for block in blocks if block.made_at < edge]
        if not blocks:
            return _nothing()
        if is_whole or not (self._interval_s or self._is_slow(blocks)):
            return self._give(self._place, blocks[0])
        return self._give_newest(self._place, list(blocks))

    def _is_slow(self, blocks: Sequence[Block]) -> bool:
        late = time.monotonic() - blocks[0].made_at
        return len(blocks) > 1 and late > self._stage.paces.slow_after_s

    def _edge(self, now: float) -> float:
        """The last of the moments at which all clients with this interval get something."""
        return math.floor(now / self._interval_s) * self._interval_s

    async def _begin(self, ring: Ring) -> Events:
        if self._gap is not None:
            yield self._gap_event(self._gap)
            self._gap = None
        if self._wanted is not None:
            async with aclosing(self._resume(self._wanted)) as events:
                async for event in events:
                    yield event
            return
        self._place, self._position = ring.last, ring.end
        yield sse.heartbeat(self._id())  # from here on, it has a place to come back to

    async def _resume(self, wanted: Position) -> Events:
        """Go on from a position: from the queue up to the ring, then in the ring."""
        while (ring := self._stage.ring) is not None:
            place, target = ring.place_of(wanted)
            if not _is_same(target, wanted):
                async with aclosing(self._from_queue(wanted, target)) as events:
                    async for event in events:
                        yield event
            self._wanted = wanted = target
            if self._stage.ring is ring and place >= ring.first:
                self._place, self._position, self._whole_until = place, target, ring.last
                yield sse.heartbeat(self._id())
                return

    async def _from_queue(self, wanted: Position, target: Position) -> Events:
        async with aclosing(self._stage.replays.between(wanted, target)) as items:
            async for item in items:
                if isinstance(item, Gap):
                    yield self._gap_event(item)
                    continue
                data = await self._stage.kitchen.replayed(item.table, self._which)
                for number, each in enumerate(data, 1):
                    yield self._readings(each, item.end if number == len(data) else None)

    async def _fallen_behind(self, ring: Ring) -> Events:
        if self._place is not None and self._place < self._whole_until:
            self._place, self._wanted = None, self._position
            return
        reason = "the client was slow for so long that what it missed is gone"
        if self._place is not None and self._place < ring.base:
            reason = "the gateway had to begin anew with the queue"
        self._place = ring.first
        yield self._gap_event(Gap(self._position.time_ms, ring.start.time_ms, reason))
        self._position = ring.start

    async def _give(self, place: int, block: Block) -> Events:
        """Every reading of one block."""
        if block.gap is not None:
            yield self._gap_event(block.gap)
        data = await self._stage.kitchen.block(place, block, self._which)
        for number, each in enumerate(data, 1):
            yield self._readings(each, block.end if number == len(data) else None)
        self._place, self._position = place + 1, block.end

    async def _give_newest(self, place: int, blocks: list[Block]) -> Events:
        """The newest of each series of some blocks, which are let go before anything is given."""
        end, behind = blocks[-1].end, place + len(blocks)
        gaps = [block.gap for block in blocks if block.gap is not None]
        kitchen = self._stage.kitchen
        self._stage.metrics.thinned.inc()
        tables = await kitchen.newest(place, blocks, self._which)
        blocks.clear()  # a client that stands still must not hold on to them
        for gap in gaps:
            yield self._gap_event(gap)
        for number, table in enumerate(tables):
            key = (place, behind, self._which, number)
            data = await kitchen.data(key, table)
            yield self._readings(data, end if number == len(tables) - 1 else None)
        self._place, self._position = behind, end

    def _readings(self, data: bytes, end: Position | None) -> bytes:
        """Only the last event of several that belong together says a new position."""
        place = encode_position(end, self._stage.topic) if end is not None else ""
        return sse.event("readings", data, place)

    def _gap_event(self, gap: Gap) -> bytes:
        self._stage.metrics.gaps.inc()
        return sse.facts("gap", {"from": gap.from_ms, "to": gap.to_ms, "reason": gap.reason})

    def _id(self) -> str:
        if self._place is None:
            return ""
        return encode_position(self._position, self._stage.topic)


async def _nothing() -> Events:
    events: tuple[bytes, ...] = ()
    for event in events:
        yield event


def _is_same(one: Position, other: Position) -> bool:
    partitions = one.offsets.keys() | other.offsets.keys()
    return all(one.offsets.get(p, 0) == other.offsets.get(p, 0) for p in partitions)
