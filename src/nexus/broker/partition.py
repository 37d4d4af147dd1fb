"""One partition as the broker serves it: its log, its high watermark, and who waits for it.

Consumers read below the high watermark. With `fsync: commit` it is the end of what is flushed,
otherwise the end of the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from nexus.log import Append, PartitionLog
from nexus.wire.batch import BatchHeader
from nexus.wire.errors import (
    ErrorCode,
    ProtocolError,
    StorageError,
    UnknownTopicOrPartition,
)

Wake = Callable[[], None]
Then = Callable[[ProtocolError | None], None]

# Solo brokers lead every partition for ever. The cluster gives each leadership its own epoch.
FIRST_LEADER_EPOCH: Final = 0


NO_EPOCH: Final = -1


class FencedLeaderEpoch(ProtocolError):
    """Raised when a client knows only of an older leadership."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(ProtocolError):
    """Raised when a client knows of a newer leadership than this broker."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class Partition:
    """Appends, and tells those who wait how far the log is safe."""

    __slots__ = (
        "_report_failure",
        "_request_flush",
        "_waiters",
        "append_lock",
        "flush_requested",
        "high_watermark",
        "index",
        "is_retired",
        "leader_epoch",
        "log",
        "topic",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        log: PartitionLog,
        request_flush: Callable[[Partition], None] | None,
        report_failure: Callable[[Partition], None],
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = FIRST_LEADER_EPOCH
        self._request_flush = request_flush
        self._report_failure = report_failure
        self._waiters: deque[tuple[int, Then]] = deque()
        # Batches that must be rewritten off the loop queue here, so that they keep their order.
        self.append_lock = asyncio.Lock()
        self.flush_requested = False
        self.is_retired = False
        self.watchers: set[Wake] = set()
        self.high_watermark = self._safe_end()

    def append(self, batch: memoryview, header: BatchHeader) -> Append:
        """Append one batch that was checked; it becomes visible when it is safe."""
        try:
            appended = self.log.append(batch, header, self.leader_epoch)
        except StorageError as error:
            self.fail(error)
            raise
        if self._request_flush is None:
            self._advance()
        else:
            self._request_flush(self)
        return appended

    def check_epoch(self, epoch: int) -> None:
        """Refuse a client whose view of the leadership (-1: none) is older or newer than ours."""
        if epoch in (NO_EPOCH, self.leader_epoch):
            return
        if epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {epoch} is over; {self.leader_epoch} leads now")
        raise UnknownLeaderEpoch(f"epoch {epoch} is not known here yet")

    def check_readable(self, epoch: int) -> None:
        """Refuse what cannot be read from here and now."""
        self.check_epoch(epoch)
        if self.is_retired:
            raise UnknownTopicOrPartition(f"topic {self.topic} was deleted")
        self.check_online()

    def check_online(self) -> None:
        """Refuse while the disk is failed."""
        if self.log.failure is not None:
            raise self.log.failure

    def when_safe(self, end_offset: int, then: Then) -> bool:
        """Call `then` once the high watermark reaches `end_offset`, or with why it will not.

        Returns false, and never calls, if it is that far already.
        """
        if self.high_watermark >= end_offset:
            return False
        self._waiters.append((end_offset, then))
        return True

    async def safe(self, end_offset: int) -> None:
        """Wait until the high watermark reaches `end_offset`; raises why it will not."""
        future = asyncio.get_running_loop().create_future()

        def then(error: ProtocolError | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

        if self.when_safe(end_offset, then):
            await future

    def on_flushed(self) -> None:
        """The log was flushed: let waiters and readers go on."""
        self._advance()

    def fail(self, error: StorageError) -> None:
        """The disk failed: nobody who waits gets an acknowledgement, and somebody must mend it."""
        self._fail_waiters(error)
        self.wake()
        self._report_failure(self)

    def retire(self) -> None:
        """The topic is deleted: whoever waits here is told so."""
        self.is_retired = True
        self._fail_waiters(UnknownTopicOrPartition(f"topic {self.topic} was deleted"))
        self.wake()

    def on_reopened(self) -> None:
        """The log is back, cut to what was flushed."""
        self.high_watermark = self._safe_end()
        self.wake()

    def wake(self) -> None:
        """Let those who watch look again."""
        for watcher in list(self.watchers):
            watcher()

    def _fail_waiters(self, error: ProtocolError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for _, then in waiters:
            then(error)

    def _safe_end(self) -> int:
        return self.log.end_offset if self._request_flush is None else self.log.flushed_offset

    def _advance(self) -> None:
        end = self._safe_end()
        if end <= self.high_watermark:
            return
        self.high_watermark = end
        waiters = self._waiters
        while waiters and waiters[0][0] <= end:
            waiters.popleft()[1](None)
        if self.watchers:
            self.wake()
