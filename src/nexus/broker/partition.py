"""One partition as the broker serves it: its log, its high watermark, and who waits for it.

Consumers read below the high watermark. With `fsync: commit` it is the end of what is flushed,
otherwise the end of the log; in a cluster the least of these over the in-sync replicas. There a
partition has a role: it leads in one epoch, follows another broker's, or does neither for now.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nexus.cluster.following import Following
from nexus.cluster.leading import Leading, Rules
from nexus.cluster.partition_state import PartitionState
from nexus.log import Append, PartitionLog
from nexus.wire.batch import BatchHeader
from nexus.wire.errors import (
    ErrorCode,
    OutOfOrderSequence,
    ProtocolError,
    StorageError,
    UnknownTopicOrPartition,
)

Wake = Callable[[], None]
Then = Callable[[ProtocolError | None], None]

# Solo brokers lead every partition for ever. The cluster gives each leadership its own epoch.
FIRST_LEADER_EPOCH: Final = 0
NO_EPOCH: Final = -1
SETTLING_SECONDS: Final = 10.0  # longer than a client's requests are on their way


class FencedLeaderEpoch(ProtocolError):
    """Raised when a client knows only of an older leadership."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(ProtocolError):
    """Raised when a client knows of a newer leadership than this broker."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class NotLeader(ProtocolError):
    """Raised when a partition's leader is another broker, or nobody."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class NotEnoughReplicas(ProtocolError):
    """Raised when too few replicas are in sync to take a write."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(ProtocolError):
    """Raised when a write was taken and too few replicas are in sync by now."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class OffsetNotAvailable(ProtocolError):
    """Raised when a new leader does not know yet how far the partition was acknowledged."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


@dataclass(slots=True)
class Carried:
    """What went in and out of a partition here since the start."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    messages_out: int = 0


class Partition:
    """Appends, and tells those who wait how far the log is safe."""

    __slots__ = (
        "_acknowledged",
        "_flush_waiters",
        "_led_epoch",
        "_report_failure",
        "_request_flush",
        "_waiters",
        "append_lock",
        "carried",
        "flush_requested",
        "following",
        "high_watermark",
        "index",
        "is_leader",
        "is_retired",
        "leader_epoch",
        "leading",
        "log",
        "replica_watchers",
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
        *,
        is_shared: bool = False,
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
        self.carried = Carried()
        self.flush_requested = False
        self.is_retired = False
        self.watchers: set[Wake] = set()
        self.replica_watchers: set[Wake] = set()
        self._flush_waiters: list[tuple[int, asyncio.Future[None]]] = []
        # One that others share is led by nobody until the cluster says so.
        self.is_leader = not is_shared
        self.leading: Leading | None = None
        self.following: Following | None = None
        self._led_epoch = NO_EPOCH
        # Who leads alone knows what is safe; others are told.
        self.high_watermark = log.start_offset if is_shared else self._safe_end()
        self._acknowledged = self.high_watermark

    def append(self, batch: memoryview, header: BatchHeader) -> Append:
        """Append one batch that was checked; it becomes visible when it is safe."""
        if not self.is_leader:
            raise self._not_leader()
        is_unknown = header.base_sequence > 0 and self.log.producers.get(header.producer_id) is None
        if is_unknown and self._may_follow_another(header):
            raise self._not_leader()
        try:
            appended = self.log.append(batch, header, self.leader_epoch)
        except OutOfOrderSequence as error:
            if self._may_follow_another(header):
                raise self._not_leader() from error
            raise
        except StorageError as error:
            self.fail(error)
            raise
        self.carried.bytes_in += header.size
        self.carried.messages_in += header.count
        if self.leading is not None:
            self.leading.appended(self.log.end_offset)
            for watcher in list(self.replica_watchers):
                watcher()
        if self._request_flush is None:
            self.on_flushed()
        else:
            self._request_flush(self)
        return appended

    def _may_follow_another(self, header: BatchHeader) -> bool:
        """Whether a batch before this one may have been sent away, just before this broker led.

        A producer has several requests on their way. If the first is told to look for the leader
        and the second finds it here, a gap in the sequence would be an error that no retry mends:
        clients take a new epoch then, and may write twice what they had no answer to elsewhere.
        """
        leading = self.leading
        if leading is None:
            return False
        state = self.log.producers.get(header.producer_id)
        is_heard = state is not None and state.batches[-1].base_offset >= leading.first
        now = asyncio.get_running_loop().time()
        return not is_heard and now - leading.began_at < SETTLING_SECONDS

    # In a cluster -----------------------------------------------------------------------------

    def lead(self, state: PartitionState, me: int, rules: Rules, now: float) -> bool:
        """Lead in a new epoch; false in one that was led before, whose end was not seen."""
        self.step_down(state.epoch)
        if self.log.failure is not None or state.epoch <= self._led_epoch:
            return False
        self.log.begin_epoch(state.epoch)
        self._led_epoch = state.epoch
        end, safe = self.log.end_offset, self._safe_end()
        self.leading = Leading(me, state, rules, end, safe, self.high_watermark, now)
        self.is_leader = True
        self._acknowledged = self.high_watermark
        if safe < end and self._request_flush is not None:
            self._request_flush(self)
        self._advance()
        return True

    def follow(self, following: Following) -> None:
        """Copy another broker's log from now on."""
        self.step_down(following.epoch)
        self.following = following

    def step_down(self, epoch: int) -> None:
        """Lead and follow nobody; whoever waits here is told to look for the leader."""
        self.is_leader = False
        self.leading = self.following = None
        self.leader_epoch = epoch
        self._fail_waiters(self._not_leader())
        self.wake()

    def agreed(self, state: PartitionState) -> None:
        """The state of the epoch that is led here is another one now."""
        if self.leading is not None:
            self.leading.agreed(state)
            self._advance()

    def fetched(self, node: int, epoch: int, offset: int, now: float) -> None:
        """A follower asks for what comes at an offset: it has all before, safely."""
        if self.leading is None:
            raise self._not_leader()
        if self.leading.fetched(node, epoch, offset, now):
            self._advance()

    def copied(self, watermark: int) -> None:
        """The leader told its watermark; what is here of it is as safe."""
        self.high_watermark = max(self.high_watermark, min(watermark, self.log.end_offset))

    def was_cut(self) -> None:
        """The log was cut to where it parts from the leader's."""
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    async def flushed(self) -> None:
        """Wait until all that the log has now is as safe as the settings ask."""
        end = self.log.end_offset
        if self._request_flush is None or self.log.flushed_offset >= end:
            return
        future = asyncio.get_running_loop().create_future()
        self._flush_waiters.append((end, future))
        self._request_flush(self)
        await future

    @property
    def is_settled(self) -> bool:
        """Whether the watermark may be shown: a new leader's may lie below one that was seen."""
        return self.leading is None or self.leading.is_settled

    def check_writable(self, *, by_all: bool) -> None:
        """Refuse a write that nobody could acknowledge."""
        if not self.is_leader:
            raise self._not_leader()
        if by_all and self.leading is not None and not self.leading.takes_writes:
            raise NotEnoughReplicas(f"in sync: {self.leading.state.in_sync}")

    def _not_leader(self) -> NotLeader:
        return NotLeader(f"{self.topic}/{self.index} is not led here")

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
        if not self.is_leader:
            raise self._not_leader()
        self.check_online()

    def check_online(self) -> None:
        """Refuse while the disk is failed."""
        if self.log.failure is not None:
            raise self.log.failure

    def when_safe(self, end_offset: int, then: Then) -> bool:
        """Call `then` once the high watermark reaches `end_offset`, or with why it will not.

        Returns false, and never calls, if it is that far already.
        """
        if self._acknowledged >= end_offset:
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
        if self._flush_waiters:
            self._tell_flushed()
        if self.leading is not None:
            self.leading.was_flushed(self._safe_end())
        if self.is_leader:
            self._advance()

    def fail(self, error: StorageError) -> None:
        """The disk failed: nobody who waits gets an acknowledgement, and somebody must mend it."""
        self._fail_waiters(error)
        if self.leading is not None:
            # What is lost here may be elsewhere: in this epoch it cannot lead again.
            self.step_down(self.leader_epoch)
        self.wake()
        self._report_failure(self)

    def retire(self) -> None:
        """The topic is deleted: whoever waits here is told so."""
        self.is_retired = True
        self._fail_waiters(UnknownTopicOrPartition(f"topic {self.topic} was deleted"))
        self.wake()

    def on_reopened(self) -> None:
        """The log is back, cut to what was flushed."""
        if self.is_leader:
            self.high_watermark = self._acknowledged = self._safe_end()
        else:
            self.was_cut()
        self.wake()

    def wake(self) -> None:
        """Let those who watch look again."""
        for watcher in [*self.watchers, *self.replica_watchers]:
            watcher()

    def _fail_waiters(self, error: ProtocolError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for _, then in waiters:
            then(error)
        flushes, self._flush_waiters = self._flush_waiters, []
        for _, future in flushes:
            if not future.done():
                future.set_exception(error)

    def _tell_flushed(self) -> None:
        safe = self._safe_end()
        for end, future in self._flush_waiters:
            if end <= safe and not future.done():
                future.set_result(None)
        self._flush_waiters = [one for one in self._flush_waiters if not one[1].done()]

    def _safe_end(self) -> int:
        return self.log.end_offset if self._request_flush is None else self.log.flushed_offset

    def _advance(self) -> None:
        leading = self.leading
        if leading is None:
            end = acknowledged = self._safe_end()
        else:
            end = leading.high_watermark
            acknowledged = leading.flushed if leading.rules.mode == "async" else end
        if acknowledged > self._acknowledged:
            self._acknowledged = acknowledged
            self._acknowledge(acknowledged)
        if end > self.high_watermark:
            self.high_watermark = end
            for watcher in list(self.watchers):
                watcher()

    def _acknowledge(self, end: int) -> None:
        error: ProtocolError | None = None
        if self.leading is not None and not self.leading.takes_writes:
            error = NotEnoughReplicasAfterAppend(f"in sync: {self.leading.state.in_sync}")
        waiters = self._waiters
        while waiters and waiters[0][0] <= end:
            waiters.popleft()[1](error)
