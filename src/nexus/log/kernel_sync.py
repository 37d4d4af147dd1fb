"""Syncs files in the kernel's own time: asked for with one call, told by a descriptor when done.

Linux runs these syncs side by side and merges their journal commits, and none of our threads has
to wait for one, so they cost the event loop next to nothing. A system without them has `flush`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

try:
    from caio import linux_aio
except ImportError:  # no Linux, or a C library too old for it
    HAS_KERNEL_SYNC = False
else:
    HAS_KERNEL_SYNC = True

DEPTH: Final = 1024

Told = Callable[[OSError | None], None]
_INT64_MAX: Final = (1 << 63) - 1


class KernelSync:
    """A queue of syncs in the kernel. Not for several threads."""

    def __init__(self) -> None:
        self._context = linux_aio.Context(DEPTH)
        self._in_flight = 0

    @classmethod
    def open(cls) -> KernelSync | None:
        """The queue, or None where the system has none to give."""
        if not HAS_KERNEL_SYNC:
            return None
        try:
            return cls()
        except Exception:  # noqa: BLE001 - as in `submit`; flushes go without it
            return None

    @property
    def fileno(self) -> int:
        """Readable when syncs are done."""
        return self._context.fileno

    def submit(self, wanted: Sequence[tuple[int, Told]]) -> int:
        """Ask to sync descriptors; returns how many of them, from the first on, were taken."""
        taken = wanted[: DEPTH - self._in_flight]
        operations = []
        for fd, told in taken:
            operation = linux_aio.Operation.fdsync(fd)
            operation.set_callback(_Callback(self, told))
            operations.append(operation)
        try:
            accepted = self._context.submit(*operations) if operations else 0
        except Exception:  # noqa: BLE001 - the library has one of its own for each error number
            return 0
        self._in_flight += accepted
        return accepted

    def reap(self) -> None:
        """Tell those whose syncs are done."""
        self._context.poll()
        self._context.process_events(DEPTH)

    def _done(self) -> None:
        self._in_flight -= 1


class _Callback:
    __slots__ = ("_queue", "_told")

    def __init__(self, queue: KernelSync, told: Told) -> None:
        self._queue = queue
        self._told = told

    def __call__(self, result: int) -> None:
        self._queue._done()
        # The library hands a negative error number on as if it had no sign.
        number = (1 << 64) - result if result > _INT64_MAX else 0
        self._told(OSError(number, os.strerror(number)) if number else None)
