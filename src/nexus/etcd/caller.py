"""Makes calls: over endpoints, with retries as `retry` decides, logged in where there is a user.

A caller belongs to the event loop and the process that made it, because gRPC does.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from nexus.etcd import schema
from nexus.etcd.config import EtcdConfig
from nexus.etcd.endpoints import Channels, Failed, Rotation
from nexus.etcd.errors import Ambiguous, AuthFailed, Closed, RequestTooLarge, TokenRefused
from nexus.etcd.faults import Fault, judge
from nexus.etcd.forks import claim_process
from nexus.etcd.retry import Attempts
from nexus.etcd.schema import Method

Metadata = tuple[tuple[str, str], ...]
_HAS_LEADER: Metadata = (("hasleader", "true"),)


class Caller:
    """One client's way to the server."""

    def __init__(
        self,
        config: EtcdConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self.rotation = Rotation(config.endpoints, int(chance() * len(config.endpoints)))
        self._channels = Channels(config)
        self._clock = clock
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._process = claim_process()
        self._closed = False
        self._token: str | None = None if config.login else ""
        self._logging_in = asyncio.Lock()

    async def call(
        self,
        method: Method,
        request: Any,
        *,
        repeatable: bool,
        needs_leader: bool = True,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer of whichever endpoint gives one first within the time."""
        attempts = self._attempts(timeout_s, repeatable)
        while True:
            endpoint = self.rotation.current
            metadata = await self.metadata(needs_leader=needs_leader)
            try:
                return await self._attempt(endpoint, method, request, metadata, attempts)
            except Failed as failed:
                pause_s = attempts.after(failed.fault, self._clock())
                await self.recover(failed, endpoint, metadata)
            await asyncio.sleep(pause_s)

    async def call_at(
        self, endpoint: str, method: Method, request: Any, timeout_s: float | None = None
    ) -> Any:
        """The answer of this one endpoint, asked once; leader or not."""
        attempts = self._attempts(timeout_s, repeatable=False)
        while True:
            metadata = await self.metadata(needs_leader=False)
            try:
                return await self._attempt(endpoint, method, request, metadata, attempts)
            except Failed as failed:
                if not isinstance(failed.fault.error, TokenRefused):
                    raise failed.fault.error from None
                attempts.after(failed.fault, self._clock())
                await self.recover(failed, endpoint, metadata)

    async def channel(self, endpoint: str) -> grpc.aio.Channel:
        """A connected channel, for a stream."""
        self._check()
        return await self._channels.connected(endpoint, self.config.connect_s)

    async def metadata(self, *, needs_leader: bool = True) -> Metadata:
        """What goes with a call: the demand for a leader, and the token."""
        if self._token is None:
            await self._log_in(None)
        token: Metadata = (("token", self._token),) if self._token else ()
        return (*_HAS_LEADER, *token) if needs_leader else token

    def current_token(self) -> str:
        """The token in use, for calls made by another thread."""
        return self._token or ""

    async def recover(self, failed: Failed, endpoint: str, metadata: Metadata) -> None:
        """After a failure: a new token, or the next endpoint."""
        if isinstance(failed.fault.error, TokenRefused):
            await self._log_in(dict(metadata).get("token", ""))
        else:
            self.rotation.failed(endpoint)

    async def close(self) -> None:
        """Reads under way raise Closed, writes Ambiguous; safe to call twice."""
        self._closed = True
        if self._process == os.getpid():
            await self._channels.close()

    async def _attempt(
        self, endpoint: str, method: Method, request: Any, metadata: Metadata, attempts: Attempts
    ) -> Any:
        await self._channels.connected(endpoint, attempts.timeout_s(self._clock()))
        call = self._channels.unary(endpoint, method)
        try:
            return await call(request, timeout=attempts.timeout_s(self._clock()), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise Failed(_fault(error, endpoint, request)) from None
        except asyncio.CancelledError:
            # gRPC cancels whoever waits when its channel is closed: that is no one's wish.
            if self._closed and not cancelled_on_purpose():
                kind = Closed if attempts.repeatable else Ambiguous
                raise kind("etcd: the client was closed during the call") from None
            raise

    def _attempts(self, timeout_s: float | None, repeatable: bool) -> Attempts:
        self._check()
        whole_s = self.config.timeout_s if timeout_s is None else timeout_s
        return Attempts(self._clock() + whole_s, self.config.attempt_s, repeatable, self._chance)

    async def _log_in(self, refused: str | None) -> None:
        """A new token, unless another call has got one since `refused` was used."""
        login = self.config.login
        if login is None:
            raise AuthFailed("etcd wants a user and a password, and none are given")
        async with self._logging_in:
            if self._token != refused:
                return
            request = schema.AUTHENTICATE.request(name=login.user, password=login.password)
            self._token = await self._authenticate(request)

    async def _authenticate(self, request: Any) -> str:
        attempts = self._attempts(None, repeatable=True)
        while True:
            endpoint = self.rotation.current
            try:
                answer = await self._attempt(endpoint, schema.AUTHENTICATE, request, (), attempts)
            except Failed as failed:
                if "authentication is not enabled" in str(failed):
                    return ""
                pause_s = attempts.after(failed.fault, self._clock())
                self.rotation.failed(endpoint)
                await asyncio.sleep(pause_s)
            else:
                return str(answer.token)

    def _check(self) -> None:
        if self._closed:
            raise Closed("etcd: the client is closed")
        if self._process != os.getpid():
            raise Closed("etcd: the client was opened before a fork")
        if self._loop is not asyncio.get_running_loop():
            raise Closed("etcd: the client belongs to another event loop; open one in each")


def _fault(error: grpc.aio.AioRpcError, endpoint: str, request: Any) -> Fault:
    details = error.details() or ""
    fault = judge(error.code(), details, endpoint)
    if isinstance(fault.error, RequestTooLarge):
        return judge(
            error.code(), f"{details} (the request has {request.ByteSize()} bytes)", endpoint
        )
    return fault


def cancelled_on_purpose() -> bool:
    """Whether somebody asked the running task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
