"""What a broker keeps in a compacted topic of its own: who keeps it, and how it is loaded.

Each partition that is led here has a keeper. It first loads all that was ever acknowledged there.
Every batch is checked on the way. A damaged one is waited for while others may have it; where
nobody has, it is left out and said to be lost. Nothing is made of garbage.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from nexus.broker.admin import Admin
from nexus.broker.partition import NotLeader, Partition
from nexus.broker.topics import Topic, Topics
from nexus.log import FileSlice, PartitionLog
from nexus.log.mending import check_batches, sound_behind
from nexus.observe.logs import get_logger
from nexus.settings import BrokerSettings
from nexus.wire.batch import iter_headers, read_header
from nexus.wire.errors import CorruptMessage, ErrorCode, ProtocolError
from nexus.wire.records import Record, decode_records

log = get_logger(__name__)

LOAD_CHUNK_BYTES: Final = 4 << 20
MENDED_WITHIN_SECONDS: Final = 0.1

OffLoop = Callable[..., Any]
# Told of damage in a partition at an offset; whether a sound copy will take its place.
Damaged = Callable[[Partition, int], bool]


class CoordinatorNotAvailable(ProtocolError):
    """Raised when there is no place to keep something in."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Keeper(Protocol):
    """Keeps what is in one partition."""

    async def load(self, off_loop: OffLoop, damaged: Damaged) -> None:
        """Take up what the partition holds, and serve."""

    def begin(self) -> None:
        """Serve: there is nothing to load."""

    def close(self) -> None:
        """Answer everyone who waits, and serve no more."""


K = TypeVar("K", bound=Keeper)


class Keepers(ABC, Generic[K]):
    """One keeper for each partition of a topic that is led here."""

    def __init__(
        self,
        topic: str,
        configs: Mapping[str, str],
        topics: Topics,
        admin: Admin,
        settings: BrokerSettings,
        *,
        off_loop: OffLoop,
        damaged: Damaged,
    ) -> None:
        self._topic = topic
        self._configs = configs
        self._topics = topics
        self._admin = admin
        self._settings = settings
        self._off_loop = off_loop
        self._damaged = damaged
        self._kept: dict[int, K] = {}
        self._loading: set[asyncio.Task[None]] = set()

    @abstractmethod
    def _keeper_of(self, partition: Partition) -> K:
        """Who keeps what is in a partition from now on."""

    def _partitions(self) -> int:
        """How many partitions the topic is made with."""
        return self._settings.groups.offsets_partitions

    def start(self) -> None:
        """Load what is kept here, in the background."""
        topic = self._topics.find(self._topic)
        for partition in topic.partitions.values() if topic is not None else ():
            if partition.is_leader and partition.index not in self._kept:
                self.gained(partition)

    def gained(self, partition: Partition) -> None:
        """A partition of the topic is led here now."""
        self.lost(partition)
        keeper = self._kept[partition.index] = self._keeper_of(partition)
        if partition.log.end_offset == partition.log.start_offset:
            keeper.begin()
            return
        task = asyncio.ensure_future(self._load(keeper, partition))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    def lost(self, partition: Partition) -> None:
        """Another broker keeps what is in a partition, or nobody for now."""
        keeper = self._kept.pop(partition.index, None)
        if keeper is not None:
            keeper.close()

    async def _load(self, keeper: K, partition: Partition) -> None:
        try:
            await keeper.load(self._off_loop, self._damaged)
        except ProtocolError as error:
            place = {"topic": partition.topic, "partition": partition.index}
            log.warning("what is kept here is not loaded", why=str(error), **place)

    async def ensure(self) -> Topic:
        """Make the topic at its first use."""
        found = self._topics.find(self._topic)
        if found is not None and (self._kept or found.count > len(found.partitions)):
            return found
        try:
            replication = self._admin.most(self._settings.groups.offsets_replication)
            found = await self._admin.ensure(
                self._topic, self._partitions(), self._configs, replication
            )
        except ProtocolError as error:
            raise CoordinatorNotAvailable(f"{self._topic} cannot be made now: {error}") from error
        self.start()
        return found

    def close(self) -> None:
        """Answer everyone who waits and stop; safe to call twice."""
        for task in self._loading:
            task.cancel()
        for keeper in self._kept.values():
            keeper.close()


class _Chunk(NamedTuple):
    """Records, where to go on, and where a damaged batch is in the way."""

    records: list[Record]
    next_offset: int
    damaged_at: int | None = None


async def replay(
    partition: Partition, off_loop: OffLoop, damaged: Damaged
) -> AsyncIterator[list[Record]]:
    """All that was ever acknowledged in a partition that is led here, some of it at a time."""
    if (leading := partition.leading) is not None:
        # A new leader must first know what that is.
        await partition.safe(leading.first)
    epoch, offset = partition.leader_epoch, partition.log.start_offset
    read = _read_at
    while offset < partition.high_watermark:
        chunk: _Chunk = await off_loop(read, partition.log, offset)
        yield chunk.records
        read, offset = _read_at, chunk.next_offset
        if chunk.damaged_at is None:
            continue
        if damaged(partition, chunk.damaged_at):
            await asyncio.sleep(MENDED_WITHIN_SECONDS)
            if not partition.is_leader or partition.leader_epoch != epoch:
                raise NotLeader(f"{partition.topic}/{partition.index} is led elsewhere now")
        else:
            _say_lost(partition, chunk.damaged_at)
            read, offset = _read_behind, chunk.damaged_at


def _say_lost(partition: Partition, offset: int) -> None:
    log.error(
        "what was kept here is damaged, nobody has a copy, and it counts as lost",
        topic=partition.topic,
        partition=partition.index,
        offset=offset,
    )


def _read_at(source: PartitionLog, offset: int) -> _Chunk:
    """Some records from an offset on, as far as they are sound. On a worker thread."""
    try:
        piece = source.read(offset, LOAD_CHUNK_BYTES, source.end_offset)
    except CorruptMessage:
        return _Chunk([], offset, offset)
    return _decoded(source, piece, offset)


def _read_behind(source: PartitionLog, offset: int) -> _Chunk:
    """The records that follow a damaged batch, as far as they are sound. On a worker thread."""
    return _decoded(source, sound_behind(source, offset))


def _decoded(source: PartitionLog, piece: FileSlice | None, offset: int | None = None) -> _Chunk:
    if piece is None:
        return _Chunk([], source.end_offset)
    data, damaged_at = memoryview(piece.read()), None
    if offset is None:
        offset = read_header(data).base_offset
    if (fault := check_batches(data, offset, source.gaps_below)) is not None:
        data, damaged_at = data[: fault[0]], fault[1]
    records: list[Record] = []
    for at, header in iter_headers(data):
        records.extend(decode_records(data[at : at + header.size]))
        offset = header.next_offset
    return _Chunk(records, offset, damaged_at)
