"""One writer for a store on object storage: a lease that is renewed while its holder lives.

The lease is the newest commit of a small Delta table, so taking and renewing it is the same
compare-and-swap as any commit. Clocks decide only when a lease may be taken over; that a former
holder writes nothing more is decided by the fence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from nexus.lake.errors import StoreError
from nexus.lake.fence import Fence, last_epoch
from nexus.lake.files import filesystem_of
from nexus.lake.history import read_commit
from nexus.lake.url import StoreUrl

LEASE_TABLE: Final = "_nexus/writer"
LEASE_S: Final = 45.0
RENEWALS: Final = 4  # tries in the life of one lease
_APP: Final = "nexus-lease"
_SCHEMA: Final = pa.schema([pa.field("owner", pa.string())])
_PROPERTIES: Final = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.enableExpiredLogCleanup": "true",
}


@dataclass(frozen=True, slots=True)
class Lease:
    """What the newest commit says."""

    epoch: int
    owner: str
    expires_ms: int
    number: int  # of the commit among all leases


class LeaseHold:
    """The lease of one store: a thread renews it from `take` to `give_back`."""

    def __init__(
        self,
        store: StoreUrl,
        *,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._lease_s = lease_s
        self._clock = clock
        self._table: DeltaTable | None = None
        self._mine: Lease | None = None
        self._turn = threading.Lock()  # of the handle: the renewing thread, and all others
        self._ended = threading.Event()
        self._renewer: threading.Thread | None = None

    def take(self, owner: str) -> Fence | None:
        """The next turn, or None while another's lease runs or another was quicker."""
        try:
            seen = self._newest()
            if seen is not None and seen.expires_ms > self._now_ms():
                return None
            epoch = (seen.epoch if seen else last_epoch(self._store)) + 1
            mine = self._swapped(epoch, owner, (seen.number if seen else 0) + 1)
        except CommitFailedError:
            return None
        except (DeltaError, OSError) as error:
            raise StoreError(f"store {self._store}: cannot take its lease: {error}") from error
        self._mine = mine
        self._ended.clear()
        self._renewer = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._renewer.start()
        return Fence(mine.epoch, owner)

    def held_by(self) -> str | None:
        """Whose lease runs, as far as is known."""
        try:
            seen = self._newest()
        except (DeltaError, OSError):
            return None
        return seen.owner if seen and seen.expires_ms > self._now_ms() else None

    def lost(self) -> bool:
        """Whether the lease has run out, or was taken by another."""
        return self._mine is None or self._mine.expires_ms <= self._now_ms()

    def give_back(self) -> None:
        """End the lease now, so that the next one need not wait for its end."""
        self._ended.set()
        if self._renewer is not None:
            self._renewer.join()
            self._renewer = None
        if self._mine is not None and not self.lost():
            mine, self._mine = self._mine, None
            try:
                self._swapped(mine.epoch, mine.owner, mine.number + 1, life_s=0.0)
            except (DeltaError, OSError):
                return  # it runs out by itself

    def _renew(self) -> None:
        while not self._ended.wait(self._lease_s / RENEWALS):
            mine = self._mine
            if mine is None or self.lost():
                return
            try:
                self._mine = self._swapped(mine.epoch, mine.owner, mine.number + 1)
            except (DeltaError, OSError):
                self._after_failure(mine)

    def _after_failure(self, mine: Lease) -> None:
        """A renewal failed: another has it, or its answer was lost, or the store is away."""
        try:
            seen = self._newest()
        except (DeltaError, OSError):
            return
        if seen is None or (seen.epoch, seen.owner) != (mine.epoch, mine.owner):
            self._mine = None
        else:
            self._mine = seen

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _newest(self) -> Lease | None:
        with self._turn:
            version = int(self._handle().version())
            return _lease(read_commit(filesystem_of(self._store, LEASE_TABLE), version))

    def _swapped(self, epoch: int, owner: str, number: int, life_s: float | None = None) -> Lease:
        """Commit the next lease, if none has come since; CommitFailedError otherwise."""
        life = self._lease_s if life_s is None else life_s
        lease = Lease(epoch, owner, self._now_ms() + round(life * 1000), number)
        said = {"epoch": epoch, "owner": owner, "expires_ms": lease.expires_ms, "number": number}
        with self._turn:
            table = self._table or self._handle()
            if (table.transaction_version(_APP) or 0) != number - 1:
                raise CommitFailedError("another has the lease")
            table.create_write_transaction(
                [],
                "append",
                table.schema(),
                commit_properties=CommitProperties(
                    custom_metadata={"lease": said},
                    app_transactions=[Transaction(_APP, number)],
                ),
            )
            table.update_incremental()
        return lease

    def _handle(self) -> DeltaTable:
        """The lease's table at its newest version."""
        if self._table is None:
            self._table = DeltaTable.create(
                self._store.table_uri(LEASE_TABLE),
                Schema.from_arrow(_SCHEMA),
                mode="ignore",
                configuration=_PROPERTIES,
                storage_options=self._store.storage_options,
            )
        self._table.update_incremental()
        return self._table


def _lease(actions: list[dict[str, Any]]) -> Lease | None:
    for action in actions:
        if (said := action.get("commitInfo", {}).get("lease")) is not None:
            return Lease(
                int(said["epoch"]),
                str(said["owner"]),
                int(said["expires_ms"]),
                int(said["number"]),
            )
    return None  # the commit that made the table
