"""A watch that goes on: over lost connections, killed members and lost quorum, without a gap.

One stream for each watch. It is read only as fast as the caller takes events, so nothing piles up
here; etcd keeps the rest.
"""

from __future__ import annotations

import asyncio
import random
from types import TracebackType
from typing import Any, NamedTuple, Self

import grpc
import grpc.aio
from grpc import StatusCode

from nexus.etcd import schema
from nexus.etcd.caller import Caller, Metadata, cancelled_on_purpose
from nexus.etcd.cursor import Cursor, WatchBatch, WatchRefused
from nexus.etcd.endpoints import Failed
from nexus.etcd.errors import Closed, EtcdError, PermissionDenied, TokenRefused, Unavailable
from nexus.etcd.faults import Fate, Fault, judge
from nexus.etcd.keys import Keys
from nexus.etcd.retry import LOGINS_MAX, Backoff

_NO_PUTS, _NO_DELETES = 0, 1


class WatchPlan(NamedTuple):
    """What is watched; `start_revision` 0 is from now on."""

    keys: Keys
    start_revision: int = 0
    want_previous: bool = False
    puts: bool = True
    deletes: bool = True
    progress: bool = True  # empty batches now and then, so that a quiet watch keeps its place

    def message(self, start_revision: int) -> Any:
        wanted = ((self.puts, _NO_PUTS), (self.deletes, _NO_DELETES))
        create = schema.WatchCreateRequest(
            key=self.keys.start,
            range_end=self.keys.end,
            start_revision=start_revision,
            progress_notify=self.progress,
            prev_kv=self.want_previous,
            filters=[leave_out for want, leave_out in wanted if not want],
            fragment=True,
        )
        return schema.WatchRequest(create_request=create)


class Watch:
    """Batches of events, in order, each once: `async with client.watch(keys) as w: async for …`.

    Ends only with Compacted (list again, and watch from there), PermissionDenied or Closed.
    """

    def __init__(self, caller: Caller, plan: WatchPlan, backoff: Backoff | None = None) -> None:
        self._caller = caller
        self._plan = plan
        self._backoff = backoff or Backoff()
        self._cursor = Cursor(plan.start_revision)
        self._call: Any = None
        self._metadata: Metadata = ()
        self._endpoint = ""
        self._failures = 0
        self._refusals = 0
        self._closed = False
        self._pending: asyncio.Task[WatchBatch] | None = None

    @property
    def attached(self) -> bool:
        """Whether a server serves the watch now; events come late while it does not."""
        return self._call is not None

    @property
    def next_revision(self) -> int:
        """Where the watch goes on: everything before was delivered."""
        return self._cursor.next_revision

    async def __aenter__(self) -> Self:
        """Returns when the server watches; Unavailable when none does in time."""
        try:
            async with asyncio.timeout(self._caller.config.timeout_s):
                while not self.attached:
                    await self._try(self._open())
        except TimeoutError:
            await self.close()
            raise Unavailable(f"etcd {self._endpoint}: no watch in time") from None
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        batch = await self.next()
        assert batch is not None
        return batch

    async def next(self, timeout_s: float | None = None) -> WatchBatch | None:
        """The next batch, or None when there is none in time.

        Whoever stops waiting loses nothing: the batch is there for the next call.
        """
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._batch())
        await asyncio.wait({self._pending}, timeout=timeout_s)
        if self._pending is None or self._pending.cancelled():
            raise Closed("etcd: the watch is closed")
        if not self._pending.done():
            return None
        done, self._pending = self._pending, None
        return done.result()

    async def close(self) -> None:
        """Safe to call twice."""
        self._closed = True
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        self._detach()

    async def _batch(self) -> WatchBatch:
        while True:
            batch = await self._try(self._next())
            if batch is not None:
                return batch

    async def _try(self, step: Any) -> WatchBatch | None:
        """One step; when its stream breaks, a pause and another endpoint for the next one."""
        try:
            batch: WatchBatch | None = await step
            return batch
        except Failed as failed:
            self._detach()
            await self._recover(failed)
            return None

    async def _next(self) -> WatchBatch | None:
        if self._closed:
            raise Closed("etcd: the watch is closed")
        if self._call is None:
            await self._open()
        return await self._read(self._call)

    async def _open(self) -> None:
        self._endpoint = self._caller.rotation.current
        self._metadata = await self._caller.metadata()
        channel = await self._caller.channel(self._endpoint)
        call = channel.stream_stream(
            schema.WATCH.path,
            request_serializer=schema.WATCH.request.SerializeToString,
            response_deserializer=schema.WATCH.response.FromString,
        )(metadata=self._metadata)
        try:
            await self._create(call)
        except BaseException:
            call.cancel()
            raise
        self._call = call
        self._failures = self._refusals = 0

    async def _create(self, call: Any) -> None:
        """Ask for the watch and wait until the server has it."""
        self._cursor.restart()
        try:
            async with asyncio.timeout(self._caller.config.attempt_s):
                await call.write(self._plan.message(self._cursor.next_revision))
                await self._read(call)
        except TimeoutError:
            raise self._failed(StatusCode.DEADLINE_EXCEEDED, "no watch in time") from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            raise self._failed(await call.code(), await call.details() or "") from None

    async def _read(self, call: Any) -> WatchBatch | None:
        try:
            response = await call.read()
        except grpc.aio.AioRpcError as error:
            raise self._failed(error.code(), error.details() or "") from None
        except asyncio.CancelledError:
            # gRPC cancels whoever reads when its channel is closed: that is no one's wish.
            if not cancelled_on_purpose():
                raise Closed("etcd: the client was closed") from None
            raise
        if response is grpc.aio.EOF:
            raise self._failed(await call.code(), await call.details() or "stream ended")
        try:
            return self._cursor.take(response)
        except WatchRefused as refused:
            raise self._failed(StatusCode.CANCELLED, str(refused)) from None

    def _failed(self, code: StatusCode, details: str) -> Failed:
        fault = judge(code, details, self._endpoint)
        if isinstance(fault.error, PermissionDenied) and self._refusals == 0:
            # etcd says this of an outdated token too: a new one tells which it is.
            fault = Fault(TokenRefused(str(fault.error)), Fate.UNSENT)
        return Failed(fault)

    async def _recover(self, failed: Failed) -> None:
        error: EtcdError = failed.fault.error
        if isinstance(error, TokenRefused):
            self._refusals += 1
            if self._caller.config.login is None or self._refusals > LOGINS_MAX:
                raise PermissionDenied(str(error)) from None
        elif failed.fault.fate is Fate.REFUSED:
            raise error from None
        await self._caller.recover(failed, self._endpoint, self._metadata)
        if not isinstance(error, TokenRefused):
            self._failures += 1
            await asyncio.sleep(self._backoff.pause_s(self._failures, random.random()))

    def _detach(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
