"""The lock that makes one writer a store, and gives each turn a number greater than all before.

On a disk the operating system holds it, and gives it up when the process dies. On object storage
it is a lease that must be renewed. Either way a writer that was replaced without noticing cannot
commit: see `fence`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from nexus.lake.errors import StoreBusy, StoreError
from nexus.lake.fence import Fence
from nexus.lake.lease import LeaseHold
from nexus.lake.local_lock import FileHold
from nexus.lake.table import LakeTable
from nexus.lake.url import StoreUrl
from nexus.telemetry.tables import TABLES


class Hold(Protocol):
    """One way of holding a store alone."""

    def take(self, owner: str) -> Fence | None:
        """The right to write, or None while another has it."""

    def held_by(self) -> str | None:
        """Who holds it, as far as is known; None if nobody."""

    def lost(self) -> bool:
        """Whether it was taken and is another's by now."""

    def give_back(self) -> None:
        """Let others have it; safe to call twice."""


class WriterLock:
    """The lock of one store, for one would-be writer."""

    def __init__(self, store: StoreUrl, owner: str, hold: Hold | None = None) -> None:
        self.store = store
        self.owner = owner
        self._hold = hold or (FileHold(store) if store.is_local else LeaseHold(store))
        self._fence: Fence | None = None

    def acquire(self, wait: Callable[[], None] | None = None) -> Fence:
        """The right to write. While another has it, `wait` is called again and again.

        `wait` sleeps as long as it likes and ends the waiting by raising; without it a store
        that is held is StoreBusy at once.
        """
        while (fence := self._hold.take(self.owner)) is None:
            if wait is None:
                raise StoreBusy(
                    f"store {self.store}: {self.held_by() or 'another collector'} writes to it;"
                    " one writer a store: stop that one, or give this one another store"
                )
            wait()
        self._fence = fence
        if not self.store.is_local:
            self._shut_out_others(fence)
        return fence

    def _shut_out_others(self, fence: Fence) -> None:
        """A former holder of a lease may not know that it is one: no table takes its commits."""
        for spec in TABLES.values():
            table = LakeTable.find(self.store, spec)
            if table is not None:
                table.claim(fence)

    @property
    def fence(self) -> Fence:
        """The right that was acquired."""
        if self._fence is None:
            raise StoreError(f"store {self.store}: the lock is not held")
        return self._fence

    def held_by(self) -> str | None:
        """Who writes to the store now, for the message of one that stands by."""
        return self._hold.held_by()

    def lost(self) -> bool:
        """Whether another may have taken over: end the work, nothing more can be committed."""
        return self._fence is not None and self._hold.lost()

    def release(self) -> None:
        """Let the next one have the store; safe to call twice."""
        self._hold.give_back()
        self._fence = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
