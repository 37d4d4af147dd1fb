"""Copies from one leader: all partitions that it leads and this broker follows, in one fetch.

A fetch says by its offsets what this broker has, so everything is flushed before it is sent. In
each epoch a partition first finds out where its log and the leader's part, and is cut there. What
is not in sync yet is copied no faster than `cluster.move_rate` allows; what is, as fast as it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Final

from nexus.broker.partition import Partition
from nexus.broker.peer import Peer
from nexus.broker.throttle import Throttle
from nexus.cluster.following import AskEpoch, Following
from nexus.observe.logs import get_logger
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ErrorCode, ProtocolError, StorageError
from nexus.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from nexus.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

log = get_logger(__name__)

FETCH_VERSION: Final = 11
EPOCH_VERSION: Final = 3
WAIT_MS: Final = 500
ANSWER_SECONDS: Final = 5.0
PARTITION_BYTES: Final = 2 << 20
FETCH_BYTES: Final = 16 << 20
PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 1.0
# Brokers hear of a new leader one after the other, within so much of a second.
LEARNING_SECONDS: Final = 0.02
LEARNING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)

_Place = tuple[str, int]


@dataclass(slots=True)
class _Copy:
    """One partition as it was when the leader was asked."""

    partition: Partition
    following: Following
    offset: int
    is_moving: bool = False  # whether it is not in sync yet

    @property
    def place(self) -> _Place:
        return self.partition.topic, self.partition.index

    @property
    def is_current(self) -> bool:
        """Whether an answer still means this partition, in this epoch, at this offset."""
        return self.partition.following is self.following


class Fetcher:
    """Follows one broker until it is stopped."""

    def __init__(self, broker: Broker, leader: int, throttle: Throttle) -> None:
        self._broker = broker
        self._throttle = throttle
        self._leader = leader
        self._partitions: dict[_Place, Partition] = {}
        self._resting: dict[_Place, float] = {}
        self._starts: dict[_Place, int] = {}  # where the leader's log begins, if beyond ours
        self._changed = asyncio.Event()
        self._peer: Peer | None = None
        self._task = broker.loop.create_task(self._run())
        self.errors = 0

    def add(self, partition: Partition) -> None:
        """Follow this partition too."""
        place = (partition.topic, partition.index)
        self._partitions[place] = partition
        self._resting.pop(place, None)
        self._starts.pop(place, None)
        self._changed.set()

    def remove(self, partition: Partition) -> None:
        """Follow this partition no more."""
        place = (partition.topic, partition.index)
        self._partitions.pop(place, None)
        self._resting.pop(place, None)

    def look_again(self) -> None:
        """The members changed: the leader may be reachable again, or at another address."""
        member = self._broker.cluster.view.members.get(self._leader)
        here = None if self._peer is None else self._peer.address
        if self._partitions and member is not None and here != (member.host, member.port):
            self._changed.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._peer is not None:
            self._peer.close()

    async def _run(self) -> None:
        pause = PAUSE_SECONDS
        while True:
            self._changed.clear()
            try:
                if await self._round():
                    pause = PAUSE_SECONDS
                    continue
            except (OSError, TimeoutError) as error:
                log.debug("a leader cannot be reached", broker=self._leader, why=str(error))
                self.errors += 1
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
            except ProtocolError as error:
                log.warning("copying failed", broker=self._leader, why=str(error))
                self.errors += 1
            await self._sleep(min(pause, self._rested_in()))

    def _rested_in(self) -> float:
        """How long until a partition that was left out may be asked for again."""
        now = self._broker.loop.time()
        return min((at - now for at in self._resting.values() if at > now), default=inf)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _round(self) -> bool:
        """Ask once for everything; false when there was nothing to ask for."""
        now = self._broker.loop.time()
        ready = [
            _Copy(one, one.following, one.log.end_offset, self._is_moving(place))
            for place, one in self._partitions.items()
            if one.following is not None
            and one.log.failure is None
            and self._resting.get(place, 0.0) <= now
        ]
        if self._throttle.room < 1:
            ready = [copy for copy in ready if not copy.is_moving]
        peer = self._reach() if ready else None
        if peer is None:
            return False
        unaligned, aligned = [], []
        for copy in ready:
            asked = copy.following.next(copy.partition.log.leader_epochs, copy.offset)
            if isinstance(asked, AskEpoch):
                unaligned.append((copy, asked.epoch))
            else:
                aligned.append(copy)
        if unaligned:
            await self._align(peer, unaligned)
            return True
        await self._copy(peer, aligned)
        return True

    def _is_moving(self, place: _Place) -> bool:
        state = self._broker.cluster.view.state(*place)
        return state is not None and self._broker.settings.broker.id not in state.in_sync

    def _reach(self) -> Peer | None:
        member = self._broker.cluster.view.members.get(self._leader)
        if member is None:
            return None
        if self._peer is None or self._peer.address != (member.host, member.port):
            if self._peer is not None:
                self._peer.close()
            name = f"nexus-broker-{self._broker.settings.broker.id}"
            self._peer = Peer(member.host, member.port, name)
        return self._peer

    # Finding where the logs part --------------------------------------------------------------

    async def _align(self, peer: Peer, asked: list[tuple[_Copy, int]]) -> None:
        by_place = {copy.place: (copy, epoch) for copy, epoch in asked}
        request = OffsetForLeaderEpochRequest(
            replica_id=self._broker.settings.broker.id,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=copy.partition.index,
                            current_leader_epoch=copy.following.epoch,
                            leader_epoch=by_place[copy.place][1],
                        )
                        for copy in copies
                    ],
                )
                for topic, copies in _by_topic(copy for copy, _ in asked)
            ],
        )
        answer: OffsetForLeaderEpochResponse = await peer.ask(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_VERSION, request, ANSWER_SECONDS
        )
        cuts = []
        for topic in answer.topics:
            for one in topic.partitions:
                copy, _ = by_place[topic.topic, one.partition]
                if one.error_code != ErrorCode.NONE:
                    self._rest(copy, one.error_code)
                elif copy.is_current:
                    cuts.append(self._cut(copy, one.leader_epoch, one.end_offset))
        # Side by side: each waits for the disk, and a new leader for all of them.
        await asyncio.gather(*cuts)

    async def _cut(self, copy: _Copy, epoch: int, offset: int) -> None:
        source = copy.partition.log
        if epoch < 0:
            self._rest(copy, ErrorCode.UNKNOWN_LEADER_EPOCH)
            return
        cut = copy.following.epoch_ends(source.leader_epochs, source.end_offset, epoch, offset)
        if cut is None:
            return
        log.info(
            "cutting what the leader does not have",
            topic=copy.partition.topic,
            partition=copy.partition.index,
            end=source.end_offset,
            cut=cut,
        )
        if cut < copy.partition.high_watermark:
            log.error(
                "the leader lacks what was agreed on",
                topic=copy.partition.topic,
                partition=copy.partition.index,
                watermark=copy.partition.high_watermark,
                cut=cut,
            )
        try:
            await self._broker.off_loop(source.truncate_to, cut)
        except StorageError as error:
            copy.partition.fail(error)
            return
        copy.partition.was_cut()

    # Copying ----------------------------------------------------------------------------------

    async def _copy(self, peer: Peer, copies: list[_Copy]) -> None:
        flushed = await asyncio.gather(
            *(copy.partition.flushed() for copy in copies), return_exceptions=True
        )
        safe = [
            copy
            for copy, error in zip(copies, flushed, strict=True)
            if error is None and copy.is_current
        ]
        if not safe:
            return
        by_place = {copy.place: copy for copy in safe}
        answer = await self._fetched(peer, self._request(safe))
        if answer is None:
            return
        for topic in answer.responses:
            for data in topic.partitions:
                copy = by_place[topic.topic, data.partition_index]
                if copy.is_current and copy.partition.log.end_offset == copy.offset:
                    self._take(copy, data)

    def _share(self, copy: _Copy, moving: int) -> int:
        """The most to ask for of one partition: what moves shares what may be moved now."""
        if not copy.is_moving:
            return PARTITION_BYTES
        return int(min(PARTITION_BYTES, max(self._throttle.room / moving, 1)))

    def _request(self, copies: list[_Copy]) -> FetchRequest:
        moving = sum(copy.is_moving for copy in copies)
        return FetchRequest(
            replica_id=self._broker.settings.broker.id,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=copy.partition.index,
                            current_leader_epoch=copy.following.epoch,
                            fetch_offset=max(copy.offset, self._starts.get(copy.place, 0)),
                            log_start_offset=copy.partition.log.start_offset,
                            partition_max_bytes=self._share(copy, moving),
                        )
                        for copy in of_topic
                    ],
                )
                for topic, of_topic in _by_topic(copies)
            ],
        )

    async def _fetched(self, peer: Peer, request: FetchRequest) -> FetchResponse | None:
        """The answer; None where the question is out of date before it comes."""
        seconds = WAIT_MS / 1000 + ANSWER_SECONDS
        asking = asyncio.ensure_future(peer.ask(ApiKey.FETCH, FETCH_VERSION, request, seconds))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({asking, changed}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                answer: FetchResponse = asking.result()
                return answer
            return None
        finally:
            # A fetch that is given up hangs up, and the next one says all that is wanted now.
            changed.cancel()
            asking.cancel()
            await asyncio.gather(asking, changed, return_exceptions=True)

    def _take(self, copy: _Copy, data: PartitionData) -> None:
        partition = copy.partition
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(copy, data)
            return
        if data.error_code != ErrorCode.NONE:
            self._rest(copy, data.error_code)
            return
        try:
            if data.records:
                assert isinstance(data.records, memoryview)
                if copy.is_moving:
                    self._throttle.took(len(data.records))
                partition.log.append_replicated(data.records)
                self._starts.pop(copy.place, None)
        except StorageError as error:
            partition.fail(error)
            return
        except ProtocolError as error:
            log.error(
                "a copy was refused",
                topic=partition.topic,
                partition=partition.index,
                why=str(error),
            )
            self._rest(copy, error.code)
        partition.copied(data.high_watermark)
        self._begin_with(partition, data.log_start_offset)

    def _begin_with(self, partition: Partition, offset: int) -> None:
        """What was deleted at the leader goes here too."""
        source = partition.log
        if source.start_offset < offset <= partition.high_watermark and source.config.delete:
            self._broker.dispatcher.later(self._delete(partition, offset))

    async def _delete(self, partition: Partition, offset: int) -> None:
        try:
            await self._broker.in_background(partition.log.delete_before, offset)
        except StorageError as error:
            partition.fail(error)

    def _out_of_range(self, copy: _Copy, data: PartitionData) -> None:
        """The leader's log begins after ours ends: go on there, there is nothing between."""
        if data.log_start_offset > copy.offset:
            self._starts[copy.place] = data.log_start_offset
        else:
            copy.following.is_aligned = False
            self._rest(copy, data.error_code)

    def _rest(self, copy: _Copy, code: int) -> None:
        """Leave a partition out for a moment: the leader, or this broker, has to learn first."""
        log.debug("not copied now", topic=copy.partition.topic, why=ErrorCode(code).name)
        seconds = LEARNING_SECONDS if code in LEARNING else PAUSE_SECONDS
        self._resting[copy.place] = self._broker.loop.time() + seconds


def _by_topic(copies: Iterable[_Copy]) -> Iterable[tuple[str, list[_Copy]]]:
    ordered = sorted(copies, key=lambda copy: copy.place)
    for topic, of_topic in groupby(ordered, key=lambda copy: copy.partition.topic):
        yield topic, list(of_topic)
