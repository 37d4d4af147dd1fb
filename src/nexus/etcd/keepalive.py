"""Keeps a lease alive from a thread of its own, so that a busy event loop does not lose it.

Only while the loop shows signs of life: a process that hangs must lose its lease. Each renewal is
one short call with a time-out, on whichever endpoint answers; there is no stream that could hang.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import grpc

from nexus.etcd import schema
from nexus.etcd.channels import open_plain_channel, unary
from nexus.etcd.config import EtcdConfig
from nexus.etcd.endpoints import Rotation
from nexus.etcd.errors import EtcdError
from nexus.etcd.lease import Lease, steady_clock

RENEWALS_PER_TTL: Final = 3
RETRIES_PER_TTL: Final = 12
Token = Callable[[], str]


class Heartbeat:
    """The event loop's sign of life, read by another thread."""

    def __init__(self, every_s: float, clock: Callable[[], float]) -> None:
        self._every_s = every_s
        self._clock = clock
        self._last = clock()
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._last = self._clock()
        self._next = self._loop.call_later(self._every_s, self.start)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def silent_s(self) -> float:
        return self._clock() - self._last


class Renewer:
    """The calls of the thread: one endpoint after the other, each with a channel when needed."""

    def __init__(self, config: EtcdConfig, token: Token, first: str) -> None:
        self._config = config
        self._token = token
        self._rotation = Rotation(config.endpoints, config.endpoints.index(first))
        self._channels: dict[str, grpc.Channel] = {}

    def renew(self, lease_id: int, timeout_s: float) -> float | None:
        """The seconds that the server gives; 0 when the lease is gone, None when nobody says."""
        endpoint = self._rotation.current
        try:
            answer = self._call(endpoint)(
                schema.KEEP_ALIVE.request(id=lease_id),
                timeout=timeout_s,
                metadata=(("hasleader", "true"), *self._login()),
                wait_for_ready=True,
            )
        except (grpc.RpcError, EtcdError):
            self._rotation.failed(endpoint)
            return None
        return float(answer.ttl)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def _call(self, endpoint: str) -> Any:
        if endpoint not in self._channels:
            self._channels[endpoint] = open_plain_channel(self._config, endpoint)
        return unary(self._channels[endpoint], schema.KEEP_ALIVE)

    def _login(self) -> tuple[tuple[str, str], ...]:
        token = self._token()
        return (("token", token),) if token else ()


class Keeper:
    """Renews one lease every third of its time until stopped, or until the lease is lost."""

    def __init__(
        self,
        lease: Lease,
        renewer: Renewer,
        *,
        stall_s: float,
        clock: Callable[[], float] = steady_clock,
    ) -> None:
        self._lease = lease
        self._renewer = renewer
        self._stall_s = stall_s
        self._clock = clock
        self._heartbeat = Heartbeat(min(lease.ttl_s / RENEWALS_PER_TTL, stall_s / 4), clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"etcd-lease-{lease.id:x}", daemon=True
        )

    def start(self) -> None:
        self._heartbeat.start()
        self._thread.start()

    async def stop(self) -> None:
        """Renew no more; safe to call twice."""
        self._heartbeat.stop()
        self._stopping.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        pause_s = self._lease.ttl_s / RENEWALS_PER_TTL
        try:
            while not self._stopping.wait(pause_s) and not self._lease.lost():
                pause_s = self._beat()
        finally:
            self._renewer.close()

    def _beat(self) -> float:
        """One renewal, if it is due; the seconds until the next."""
        ttl_s = self._lease.ttl_s
        if self._heartbeat.silent_s() > self._stall_s:
            return ttl_s / RETRIES_PER_TTL
        sent_at = self._clock()
        # Half of what is left: a hung endpoint must leave time for another.
        timeout_s = min(ttl_s / RENEWALS_PER_TTL, max(0.05, self._lease.remaining_s() / 2))
        given_s = self._renewer.renew(self._lease.id, timeout_s)
        if given_s is None:
            return ttl_s / RETRIES_PER_TTL
        if given_s == 0:
            self._lease.drop()
            return 0.0
        self._lease.renewed(sent_at, given_s)
        return given_s / RENEWALS_PER_TTL
