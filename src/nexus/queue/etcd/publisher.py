"""Publishes to a queue in etcd: atomic transactions, in order within a partition, exactly once.

Four lanes send at the same time; a partition always goes through the same lane (`lane.py`).
While the database is nearly full, what was taken (at least one batch) waits here, and everything
else is refused with QueueFull; when there is room again, it goes on by itself.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from nexus.etcd import Client, EtcdError, connect
from nexus.queue.errors import QueueAway, QueueError, QueueFull
from nexus.queue.etcd.encoding import VALUE_BYTES, Encoder
from nexus.queue.etcd.lane import SPARE_BYTES, TRANSACTION_BYTES, Batch, Lane, Piece, Shared
from nexus.queue.etcd.layout import cluster_name, safe
from nexus.queue.etcd.leases import RotatingLease
from nexus.queue.etcd.pressure import Gate, quota_of
from nexus.queue.etcd.slots import ensure_config
from nexus.queue.partitioners import murmur2
from nexus.queue.port import Message, OnSettled
from nexus.queue.publishing import PublisherOptions, PublisherStats
from nexus.queue.url import EtcdUrl

LANES: Final = 4
_CLOSE_S: Final = 3.0
_RETRY_S: Final = 0.5


class EtcdPublisher:
    """One queue and its dead letters. Connects in the background; `close` when done."""

    def __init__(self, url: EtcdUrl, options: PublisherOptions | None = None) -> None:
        self.url = url
        self.options = options or PublisherOptions()
        self.stats = PublisherStats()
        try:
            self._config = url.address.config()
        except EtcdError as error:
            raise QueueError(f"queue {url}: {error}") from None
        self.name = f"{safe(socket.gethostname())}-{os.getpid()}-{secrets.token_hex(3)}"
        self._lock = threading.Condition()
        self._pending = self._messages_left = 0
        self._partitions: int | None = None
        self._gate: Gate | None = None
        self._early: deque[Batch] = deque()  # before it is known how many partitions there are
        self._lanes: list[Lane] = []
        self._turn = count(secrets.randbelow(1000))
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def partitions(self) -> int:
        if self._partitions is None:
            raise QueueAway(f"queue {self.url}: {self.stats.problem}")
        return self._partitions

    def publish(self, messages: Sequence[Message], on_settled: OnSettled) -> None:
        if not messages:
            on_settled(None)
            return
        batch = Batch(messages, on_settled)
        with self._lock:
            if self._closed:
                raise QueueError(f"queue {self.url}: the publisher is closed")
            if self._pending:
                self._check_room(batch)
            self._pending += 1
            self._messages_left += batch.left
            self.stats.in_flight_bytes += batch.size
            self._loop.call_soon_threadsafe(self._accept, batch)

    def flush(self, timeout_s: float) -> int:
        with self._lock:
            self._lock.wait_for(lambda: not self._pending, timeout_s)
            return self._messages_left

    def close(self) -> None:
        with self._lock:
            was_closed, self._closed = self._closed, True
        if not was_closed:
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(_CLOSE_S)

    def _check_room(self, batch: Batch) -> None:
        if self._gate is not None and self._gate.problem:
            raise QueueFull(f"queue {self.url}: {self._gate.problem}")
        if (
            self.stats.in_flight_bytes + batch.size > self.options.in_flight_bytes
            or self._messages_left + batch.left > self.options.in_flight_messages
        ):
            raise QueueFull(f"queue {self.url}: {self.stats.in_flight_bytes} bytes are unsent")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._task = self._loop.create_task(self._main())
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        except BaseException as error:
            self.stats.problem = f"the publisher has ended: {error!r}"
            raise
        finally:
            self._closed = True
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _main(self) -> None:
        async with connect(self._config) as client:
            shared = await self._ready(client)
            self._lanes = [self._lane(shared, number) for number in range(LANES)]
            self._gate, self._partitions = shared.gate, shared.partitions
            self.stats.problem = shared.gate.problem
            while self._early:
                self._spread(self._early.popleft(), shared.partitions)
            async with asyncio.TaskGroup() as group:
                group.create_task(shared.gate.watch())
                group.create_task(shared.leases.keep_tidy())
                for lane in self._lanes:
                    group.create_task(lane.run())

    async def _ready(self, client: Client) -> Shared:
        """What the server takes, and how the queue was made; asked until it answers."""
        while True:
            try:
                return await self._shared(client)
            except (EtcdError, QueueError) as error:
                self.stats.problem = str(error)
                await asyncio.sleep(_RETRY_S)

    async def _shared(self, client: Client) -> Shared:
        limits = await client.limits()
        partitions = self.url.partitions or self.options.partitions
        cluster, layout = cluster_name(self.options.cluster), self.url.layout
        request_bytes = limits.request_bytes - SPARE_BYTES
        gate = Gate(client, await quota_of(self._config, self.url.quota_bytes), self._tell)
        await gate.look()
        return Shared(
            client,
            layout,
            cluster,
            await ensure_config(client, layout, partitions),
            Encoder(
                layout,
                cluster,
                socket.gethostname(),
                packs_all=self.url.form == "packed",
                sequence=secrets.randbits(33),
                clock_ns=time.time_ns,
                value_bytes=min(VALUE_BYTES, request_bytes // 2),
            ),
            RotatingLease(client, self.url.ttl_s or self.options.ttl_s),
            gate,
            operations=limits.operations,
            request_bytes=request_bytes,
            transaction_bytes=min(request_bytes, TRANSACTION_BYTES),
            batch_messages=self.options.batch_messages,
            tell=self._tell,
            settle=self._settle,
        )

    def _lane(self, shared: Shared, number: int) -> Lane:
        return Lane(shared, shared.layout.meta("bells", self.name, str(number)), self.name)

    def _accept(self, batch: Batch) -> None:
        if self._partitions is None:
            self._early.append(batch)
        else:
            self._spread(batch, self._partitions)

    def _spread(self, batch: Batch, partitions: int) -> None:
        """Each partition's messages to its lane, in their order."""
        shares: defaultdict[int | None, list[Message]] = defaultdict(list)
        for message in batch.messages:
            partition = message[4]
            if partition is None or message[5]:
                partition = self._chosen(message, partitions)
            elif not 0 <= partition < partitions:
                partition %= partitions
            shares[partition].append(message)
        for partition, messages in shares.items():
            self._lanes[(partition or 0) % LANES].add(Piece(partition, messages, batch))

    def _chosen(self, message: Message, partitions: int) -> int | None:
        """Where a message goes that does not say: by its key, else in turn; None if it is dead."""
        if message.dead:
            return None
        number = next(self._turn) if message.key is None else murmur2(message.key)
        return number % partitions

    def _tell(self, problem: str) -> None:
        self.stats.problem = problem

    def _settle(self, batch: Batch, messages: int) -> None:
        batch.left -= messages
        if batch.left:
            return
        with self._lock:
            self._pending -= 1
            self._messages_left -= len(batch.messages)
            self.stats.in_flight_bytes -= batch.size
            if batch.refusal is not None:
                self.stats.refused += len(batch.messages)
            else:
                self.stats.messages += len(batch.messages)
                self.stats.bytes += batch.size
            self._lock.notify_all()
        batch.on_settled(batch.refusal)
