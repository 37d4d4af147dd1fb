"""The client: keys, transactions, watches, and the ways to leases, limits and maintenance.

Everything has a deadline (`timeout_s`, retries included). Reads are repeated until then; a write
is repeated only if it was certainly not carried out, and is `Ambiguous` if nobody can tell.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from nexus.etcd import schema
from nexus.etcd.caller import Caller
from nexus.etcd.compare import Compare
from nexus.etcd.config import EtcdConfig
from nexus.etcd.keys import Keys, keys_of
from nexus.etcd.leases import Leases
from nexus.etcd.limits import Limits, find_limits
from nexus.etcd.maintenance import Maintenance
from nexus.etcd.operations import Delete, Get, Operation, Put, Txn
from nexus.etcd.results import (
    DeleteResult,
    GetResult,
    KeyValue,
    PutResult,
    TxnResult,
    delete_result,
    get_result,
    put_result,
)
from nexus.etcd.scan import pages
from nexus.etcd.watch import Watch, WatchPlan


class Client:
    """One client of one etcd cluster, for the event loop and the process that made it."""

    def __init__(self, config: EtcdConfig) -> None:
        self.config = config
        self._caller = Caller(config)
        self._limits: Limits | None = None
        self.leases = Leases(self._caller)
        self.maintenance = Maintenance(self._caller)

    async def get(self, key: bytes, *, revision: int = 0) -> KeyValue | None:
        """The newest committed state of one key, or that of a revision; None if it is not there."""
        return (await self.range(Get(Keys(key), revision=revision))).first

    async def range(self, get: Get, *, timeout_s: float | None = None) -> GetResult:
        """One answer. For what may be large, `scan`."""
        answer = await self._caller.call(
            schema.RANGE,
            get.message(),
            repeatable=True,
            needs_leader=not get.serializable,
            timeout_s=timeout_s,
        )
        return get_result(answer)

    async def count(self, keys: Keys) -> int:
        return (await self.range(Get(keys, count_only=True))).total

    def scan(self, keys: Keys | Get) -> AsyncGenerator[GetResult, None]:
        """A range of any size as pages, all of one revision (that of the first page).

        Compacted when that revision goes while the pages are read.
        """
        return pages(self.range, keys if isinstance(keys, Get) else Get(keys))

    async def put(
        self, key: bytes, value: bytes, *, lease: int = 0, timeout_s: float | None = None
    ) -> PutResult:
        request = Put(key, value, lease).message()
        return put_result(await self._write(schema.PUT, request, timeout_s))

    async def delete(self, keys: bytes | Keys, *, timeout_s: float | None = None) -> DeleteResult:
        request = Delete(keys_of(keys)).message()
        return delete_result(await self._write(schema.DELETE, request, timeout_s))

    async def txn(
        self,
        *,
        when: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        timeout_s: float | None = None,
    ) -> TxnResult:
        """If every compare holds, `then`, otherwise `otherwise`; all of it or nothing.

        One that only reads is repeated like a read.
        """
        txn = Txn(tuple(when), tuple(then), tuple(otherwise))
        answer = await self._caller.call(
            schema.TXN, txn.message(), repeatable=txn.read_only, timeout_s=timeout_s
        )
        return TxnResult(answer)

    def watch(
        self,
        keys: bytes | Keys,
        *,
        start_revision: int = 0,
        want_previous: bool = False,
        puts: bool = True,
        deletes: bool = True,
    ) -> Watch:
        """Events from a revision (or from now) on; see `Watch`."""
        plan = WatchPlan(keys_of(keys), start_revision, want_previous, puts, deletes)
        return Watch(self._caller, plan)

    async def limits(self) -> Limits:
        """How large a request the server takes; asked for once."""
        if self._limits is None:
            self._limits = await find_limits(self._caller)
        return self._limits

    async def close(self) -> None:
        """Safe to call twice. Held leases are revoked by who holds them, before this."""
        await self._caller.close()

    async def _write(self, method: schema.Method, request: Any, timeout_s: float | None) -> Any:
        return await self._caller.call(method, request, repeatable=False, timeout_s=timeout_s)


@asynccontextmanager
async def connect(config: EtcdConfig) -> AsyncIterator[Client]:
    """A client for the block. Connections are made when they are first needed."""
    client = Client(config)
    try:
        yield client
    finally:
        await client.close()
