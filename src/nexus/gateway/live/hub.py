"""One follower of the queue for all clients of the live stream.

Nothing runs while nobody looks on. All methods are for the event loop that serves the clients.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final
from weakref import WeakSet

from nexus.gateway.live.errors import HubStopped, TooManyClients
from nexus.gateway.live.follower import Follower, Status
from nexus.gateway.live.kitchen import Kitchen
from nexus.gateway.live.metrics import LiveMetrics
from nexus.gateway.live.no_replay import NoReplays
from nexus.gateway.live.position import Position, decode_position
from nexus.gateway.live.replay import Replaying, Replays
from nexus.gateway.live.ring import BYTES_MAX, Block, Gap, Ring
from nexus.gateway.live.stage import Paces, Stage
from nexus.gateway.live.subscription import Subscription
from nexus.observe.metrics import Registry
from nexus.queue.opening import open_reader, open_tail
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.store.port import Selection

_READ_S: Final = 5.0
_LEAVE_S: Final = 1.0
CLIENTS_MAX: Final = 200


class LiveHub:
    """`async start`, `async stop` (safe to call twice), and `subscribe` for each client."""

    def __init__(
        self,
        queue_url: str,
        *,
        clients_max: int = CLIENTS_MAX,
        ring_bytes: int = BYTES_MAX,
        paces: Paces | None = None,
        registry: Registry | None = None,
    ) -> None:
        """QueueError if the address is wrong; connects to nothing yet.

        Counters `nexus_gateway_live_*` go into `registry`.
        """
        self.clients_max = clients_max
        self._url = parse_queue_url(queue_url)
        self._queue_url, self._ring_bytes = queue_url, ring_bytes
        self._registry = registry or Registry()
        self._metrics = LiveMetrics(self._registry)
        self._paces = paces or Paces()
        self._clients: WeakSet[Subscription] = WeakSet()
        self._stage: Stage | None = None
        self._follower: Follower | None = None
        self._alone = asyncio.Event()
        self._ending: set[asyncio.Task[None]] = set()
        self._left_at: float | None = None
        self._places = 0
        self._registry.gauge(
            "nexus_gateway_live_clients",
            "Clients that look on.",
            collect=lambda: [((), float(len(self._clients)))],
        )

    @property
    def clients(self) -> int:
        """How many look on."""
        return len(self._clients)

    @property
    def is_following(self) -> bool:
        """Whether the queue is being followed."""
        return self._follower is not None

    async def start(self) -> None:
        """In the event loop that will serve the clients; returns at once, queue or no queue."""
        if self._stage is None:
            self._stage = Stage(
                self._url.topic, Kitchen(), self._replays(), self._metrics, self._paces
            )

    def _replays(self) -> Replaying:
        if isinstance(self._url, EtcdUrl):
            return NoReplays()
        return Replays(open_reader(self._queue_url, timeout_s=_READ_S), self._metrics)

    async def stop(self) -> None:
        """End every client's stream and the following of the queue."""
        stage = self._stage
        if stage is None or stage.is_stopped:
            return
        stage.is_stopped = True
        self._wake()
        self._unfollow()
        await self._all_left()
        await asyncio.gather(*self._ending)
        await stage.replays.close()
        await stage.kitchen.close()

    async def subscribe(
        self,
        selection: Selection,
        last_event_id: str | None = None,
        *,
        interval_s: float = 0.0,
    ) -> AsyncIterator[bytes]:
        """One client's events, ready to be sent; `aclose()` it when the client has gone.

        TooManyClients and HubStopped are raised here, before the first byte. Any `last_event_id`
        is taken: one that is no position of this queue begins with a `gap` event. `interval_s`
        thins out: the newest reading of each series, so often (what is replayed comes whole).

        Events: `readings` (columns: timestamp (ms), value, metric, unit, uuid, gpu, hostname, mig,
        instance, namespace, pod, container, cluster), `gap` ({"from": ms | null, "to": ms,
        "reason": text}), `status` ({"queue": "ok" | "away", "detail": text, "time": ms}; one comes
        first on every stream), and a comment at least every 10 s.
        """
        stage = self._stage
        if stage is None or stage.is_stopped:
            raise HubStopped("the gateway is stopping")
        if len(self._clients) >= self.clients_max:
            self._metrics.turned_away.inc()
            raise TooManyClients(self.clients_max)
        wanted = decode_position(last_event_id, self._url.topic) if last_event_id else None
        gap = None
        if last_event_id and wanted is None:
            now_ms = time.time_ns() // 1_000_000
            gap = Gap(None, now_ms, "the last event's id is no position in this queue")
        client = Subscription(
            stage, selection, wanted, gap=gap, interval_s=interval_s, on_close=self._leave
        )
        self._clients.add(client)
        self._alone.clear()
        self._left_at = None
        if self._follower is None:
            self._follow()
        return client

    async def _all_left(self) -> None:
        """Those who listen leave by themselves; nobody waits long for those who do not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S if self._clients else 0):
                await self._alone.wait()

    def _leave(self, client: Subscription) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._alone.set()
        if not self._clients and self._follower is not None and self._left_at is None:
            self._left_at = time.monotonic()
            loop = asyncio.get_running_loop()
            loop.call_later(self._paces.linger_s, self._rest_if_alone, self._left_at)

    def _rest_if_alone(self, left_at: float) -> None:
        if self._left_at == left_at and not self._clients:
            self._unfollow()

    def _follow(self) -> None:
        listener = _Announcer(asyncio.get_running_loop(), self)
        self._follower = Follower(lambda: open_tail(self._queue_url), listener, self._metrics)
        listener.follower = self._follower
        self._follower.start()

    def _unfollow(self) -> None:
        follower, self._follower = self._follower, None
        if follower is None or self._stage is None:
            return
        if self._stage.ring is not None:
            self._places = self._stage.ring.last
        self._stage.ring = self._stage.status = None
        follower.stop()
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(follower.join))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def told(self, follower: Follower | None, change: Callable[[Stage], None]) -> None:
        """Something that the follower of now found out; of one before it, it is of no use."""
        if self._stage is not None and follower is self._follower:
            change(self._stage)
            self._wake()

    def opened(self, stage: Stage, start: Position) -> None:
        # No place of an older ring is one of this ring.
        self._places = (stage.ring.last if stage.ring else self._places) + 1
        stage.ring = Ring(start, self._places, bytes_max=self._ring_bytes)

    def _wake(self) -> None:
        for client in list(self._clients):
            client.wake()


class _Announcer:
    """Takes what a follower finds out in its thread to the hub in its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hub: LiveHub) -> None:
        self.follower: Follower | None = None
        self._loop, self._hub = loop, hub

    def opened(self, start: Position) -> None:
        self._tell(lambda stage: self._hub.opened(stage, start))

    def changed(self, status: Status) -> None:
        def change(stage: Stage) -> None:
            stage.status = status

        self._tell(change)

    def came(self, block: Block) -> None:
        def change(stage: Stage) -> None:
            if stage.ring is not None:
                stage.ring.append(block)

        self._tell(change)

    def _tell(self, change: Callable[[Stage], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hub.told, self.follower, change)
