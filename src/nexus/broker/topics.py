"""The topics this broker serves: found by name or id, made, changed and deleted.

What touches the disk runs on one thread, one change after the other; the event loop only ever
sees a topic that is complete.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from nexus.broker.metrics import TopicTraffic
from nexus.broker.partition import NotLeader, Partition
from nexus.broker.topic_config import check_configs, log_config, sharing_config, target_codec
from nexus.cluster.port import TopicInfo
from nexus.groups.sharing.config import SharingConfig
from nexus.log import LogConfig, LogStore, PartitionLog, TopicMeta
from nexus.settings import BrokerSettings
from nexus.wire.compression import Codec
from nexus.wire.errors import (
    InvalidPartitions,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, SHARE_STATE_TOPIC})
PARTITIONS_MAX: Final = 10_000
NO_DEPTH_MAX: Final = -1

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

T = TypeVar("T")
MakePartition = Callable[[str, int, PartitionLog], Partition]


@dataclass(slots=True)
class Topic:
    """One topic with those of its partitions, by index, whose logs are here."""

    name: str
    topic_id: UUID
    configs: dict[str, str]
    count: int
    partitions: dict[int, Partition]
    traffic: TopicTraffic
    codec: Codec | None = None
    is_compacted: bool = False
    routing: str | None = None  # as the topic says for itself
    queue_depth_max: int = NO_DEPTH_MAX
    is_internal: bool = field(init=False)
    sharing: SharingConfig = field(init=False)

    def __post_init__(self) -> None:
        self.is_internal = self.name in INTERNAL_TOPICS
        self.adopt(self.configs)

    def adopt(self, configs: dict[str, str]) -> None:
        """Take new settings."""
        self.configs = configs
        self.codec = target_codec(configs)
        self.is_compacted = "compact" in configs.get("cleanup.policy", "delete")
        self.routing = configs.get("routing.mode")
        self.queue_depth_max = int(configs.get("queue.max.depth", NO_DEPTH_MAX))
        self.sharing = sharing_config(configs)

    def partition(self, index: int) -> Partition:
        """One partition; UnknownTopicOrPartition, or NotLeader where only others have it."""
        found = self.partitions.get(index)
        if found is not None:
            return found
        if 0 <= index < self.count:
            raise NotLeader(f"{self.name}/{index} is not kept here")
        raise UnknownTopicOrPartition(f"topic {self.name} has no partition {index}")


class Topics:
    """All topics. Lookups are immediate; changes are awaited."""

    def __init__(
        self,
        store: LogStore,
        settings: BrokerSettings,
        make: MakePartition,
        traffic_for: Callable[[str], TopicTraffic],
    ) -> None:
        self._store = store
        self._settings = settings
        self._make = make
        self._traffic_for = traffic_for
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="topics")
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._creating: dict[str, asyncio.Task[Topic]] = {}

    def load(self) -> None:
        """Open every log in the data directory."""
        logs = self._store.load(self._config_for)
        for meta in self._store.topics.values():
            self._add(meta, {index: logs[meta.name, index] for index in meta.numbers})

    def close(self) -> None:
        """Wait for changes under way."""
        self._disk.shutdown()

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def partitions(self) -> Iterator[Partition]:
        """Every partition of every topic."""
        for topic in self:
            yield from topic.partitions.values()

    def creating(self, name: str) -> asyncio.Task[Topic] | None:
        """The making of a topic, while it is under way here."""
        return self._creating.get(name)

    def find(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with that id."""
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> Topic:
        """The topic of that name, or UnknownTopicOrPartition."""
        found = self._by_name.get(name)
        if found is None:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        return found

    def partition(self, name: str, index: int) -> Partition:
        """One partition; UnknownTopicOrPartition, or NotLeader where only others have it."""
        return self.topic(name).partition(index)

    def has(self, name: str, index: int) -> bool:
        """Whether there is such a partition."""
        topic = self._by_name.get(name)
        return topic is not None and 0 <= index < topic.count

    async def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Make a topic; InvalidTopic, InvalidPartitions, InvalidConfig or TopicAlreadyExists."""
        checked = self.check_new(name, partitions, configs)
        task = self._creating.get(name)
        if task is not None:
            raise TopicAlreadyExists(f"topic {name} is being created")
        task = asyncio.ensure_future(self._create(name, partitions, checked))
        self._creating[name] = task
        try:
            # A client that goes away must not leave a topic half made.
            return await asyncio.shield(task)
        finally:
            self._creating.pop(name, None)

    async def ensure(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """The topic of that name, made if it is not there."""
        if (task := self._creating.get(name)) is not None:
            return await asyncio.shield(task)
        found = self._by_name.get(name)
        return found if found is not None else await self.create(name, partitions, configs)

    def check_new(
        self, name: str, partitions: int, configs: Mapping[str, str | None]
    ) -> dict[str, str]:
        """Whether a topic could be made so; returns its settings."""
        check_name(name)
        if name in self._by_name:
            raise TopicAlreadyExists(f"topic {name} already exists")
        _check_count(partitions)
        return check_configs(configs)

    async def delete(self, name: str) -> None:
        """Remove a topic and its data."""
        topic = self.topic(name)
        if topic.is_internal:
            raise PolicyViolation(f"{name} belongs to the broker and cannot be deleted")
        del self._by_name[name]
        self._by_id.pop(topic.topic_id, None)
        for one in topic.partitions.values():
            one.retire()
        remains = await self._on_disk(partial(self._store.delete_topic, name))
        await self._on_disk(partial(_remove, self._store, remains))

    async def add_partitions(self, name: str, count: int) -> None:
        """Grow a topic to `count` partitions."""
        topic = self.check_growth(name, count)
        work = partial(self._store.add_partitions, name, count, self._config_for)
        logs = await self._on_disk(work)
        for index, log in enumerate(logs, topic.count):
            topic.partitions[index] = self._make(name, index, log)
        topic.count = count
        self._configure(topic)

    def check_growth(self, name: str, count: int) -> Topic:
        """Whether a topic could grow so."""
        topic = self.topic(name)
        if topic.is_internal:
            raise PolicyViolation(f"{name} belongs to the broker and cannot grow")
        _check_count(count)
        if count <= topic.count:
            raise InvalidPartitions(
                f"topic {name} has {topic.count} partitions; {count} would not be more"
            )
        return topic

    async def set_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Replace a topic's own settings."""
        topic = self.topic(name)
        checked = check_configs(configs)
        await self._on_disk(partial(self._store.set_configs, name, checked))
        topic.adopt(checked)
        self._configure(topic)

    def _configure(self, topic: Topic) -> None:
        config = log_config(self._settings, topic.count, topic.configs)
        for one in topic.partitions.values():
            one.log.set_config(config)

    async def _create(self, name: str, partitions: int, configs: dict[str, str]) -> Topic:
        work = partial(self._store.create_topic, name, partitions, configs, self._config_for)
        meta, logs = await self._on_disk(work)
        return self._add(meta, dict(enumerate(logs)))

    # In a cluster: what is agreed on comes in, and is carried out here ------------------------

    def recover(self) -> None:
        """Open every log in the data directory; the cluster will say which of them count."""
        self._store.load(self._config_for)

    async def adopt(self, info: TopicInfo, numbers: Collection[int]) -> Topic:
        """Know a topic as the cluster has it, and keep these of its partitions here."""
        known = self._by_name.get(info.name)
        if known is not None and known.topic_id != info.topic_id:
            await self.forget(info.name, keep=True)
        meta = TopicMeta(info.name, info.topic_id, info.partitions, dict(info.configs))
        logs = await self._on_disk(partial(self._kept, meta, numbers))
        topic = self._by_name.get(info.name) or self._add(meta, {})
        for index in sorted(logs.keys() - topic.partitions.keys()):
            topic.partitions[index] = self._make(info.name, index, logs[index])
        topic.count = info.partitions
        topic.adopt(dict(info.configs))
        self._configure(topic)
        return topic

    def _kept(self, meta: TopicMeta, numbers: Collection[int]) -> dict[int, PartitionLog]:
        old = self._store.topics.get(meta.name)
        if numbers or (old is not None and old.topic_id == meta.topic_id):
            self._store.host(meta, numbers, self._config_for)
        return {index: self._store.logs[meta.name, index] for index in numbers}

    def kept(self, name: str) -> set[int]:
        """The partitions of a topic whose logs are here, wanted or not."""
        meta = self._store.topics.get(name)
        return set(meta.numbers) if meta is not None else set()

    async def forget(self, name: str, *, keep: bool) -> None:
        """A topic is no more: remove what is here of it, or set it aside."""
        topic = self._by_name.pop(name, None)
        if topic is None:
            return
        self._by_id.pop(topic.topic_id, None)
        for one in topic.partitions.values():
            one.retire()
        if topic.partitions and keep:
            await self._on_disk(partial(self._store.set_aside, name))
        elif topic.partitions:
            remains = await self._on_disk(partial(self._store.delete_topic, name))
            await self._on_disk(partial(_remove, self._store, remains))

    async def release(self, name: str, index: int, *, keep: bool = False) -> None:
        """A partition is kept elsewhere now: remove its log, or set it aside."""
        one = self._by_name[name].partitions.pop(index, None)
        if one is not None:
            one.step_down(one.leader_epoch)
            one.is_retired = True
        if keep:
            await self._on_disk(partial(self._store.set_log_aside, name, index))
            return
        remains = await self._on_disk(partial(self._store.unhost, name, index))
        await self._on_disk(partial(_remove, self._store, remains))

    def _add(self, meta: TopicMeta, logs: Mapping[int, PartitionLog]) -> Topic:
        partitions = {index: self._make(meta.name, index, log) for index, log in logs.items()}
        traffic = self._traffic_for(meta.name)
        topic = Topic(
            meta.name, meta.topic_id, dict(meta.configs), meta.partitions, partitions, traffic
        )
        self._by_name[meta.name] = topic
        self._by_id[meta.topic_id] = topic
        return topic

    def _config_for(self, meta: TopicMeta) -> LogConfig:
        return log_config(self._settings, meta.partitions, meta.configs)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)


def check_name(name: str) -> None:
    """InvalidTopic unless the name may be a topic's, and so part of a path."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidTopic(
            f"{name[:60]!r} is no topic name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'"
        )


def _check_count(partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidPartitions(f"{partitions} partitions; 1 to {PARTITIONS_MAX} are possible")


def _remove(store: LogStore, remains: Path | None) -> None:
    if remains is not None:
        store.remove(remains)
