"""How a request is split by owner and its answers are rejoined: by partition, or by group.

Nothing is decoded here that was not before: batches go through as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol

from nexus.broker.topics import OFFSETS_TOPIC
from nexus.wire.apis import APIS, ApiKey
from nexus.wire.messages import (
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)

Key = tuple[str, int]  # a topic and a partition, or a group and nothing
Wanted = Callable[[Key], bool]


class Shape(Protocol):
    """What can be asked of several brokers at once."""

    def topics(self, body: Any) -> Iterator[str]:
        """The topics that decide who answers."""

    def keys(self, body: Any) -> Iterator[Key]:
        """Everything that is asked for."""

    def part(self, body: Any, wanted: Wanted) -> Any:
        """The same request for some of it."""

    def answers(self, response: Any) -> Iterator[tuple[Key, Any]]:
        """What was answered for each."""

    def join(self, body: Any, answers: Mapping[Key, Any]) -> Any:
        """One response, in the order of the request."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What the fields of a request or response by partition are called."""

    topics: str
    topic: str
    partitions: str
    index: str


@dataclass(frozen=True, slots=True)
class ByPartition:
    """A request whose topics have partitions."""

    api: ApiKey
    asked: _Names
    answered: _Names
    topic_answer: Callable[..., Any]

    def topics(self, body: Any) -> Iterator[str]:
        for topic in getattr(body, self.asked.topics):
            yield getattr(topic, self.asked.topic)

    def keys(self, body: Any) -> Iterator[Key]:
        for topic in getattr(body, self.asked.topics):
            name = getattr(topic, self.asked.topic)
            for one in getattr(topic, self.asked.partitions):
                yield name, getattr(one, self.asked.index)

    def part(self, body: Any, wanted: Wanted) -> Any:
        names = self.asked
        topics = []
        for topic in getattr(body, names.topics):
            name = getattr(topic, names.topic)
            partitions = [
                one
                for one in getattr(topic, names.partitions)
                if wanted((name, getattr(one, names.index)))
            ]
            if partitions:
                topics.append(_with(topic, names.partitions, partitions))
        return _with(body, names.topics, topics)

    def answers(self, response: Any) -> Iterator[tuple[Key, Any]]:
        names = self.answered
        for topic in getattr(response, names.topics):
            name = getattr(topic, names.topic)
            for one in getattr(topic, names.partitions):
                yield (name, getattr(one, names.index)), one

    def join(self, body: Any, answers: Mapping[Key, Any]) -> Any:
        names = self.answered
        topics = []
        for topic in getattr(body, self.asked.topics):
            name = getattr(topic, self.asked.topic)
            parts = [
                answers[name, getattr(one, self.asked.index)]
                for one in getattr(topic, self.asked.partitions)
            ]
            topics.append(self.topic_answer(**{names.topic: name, names.partitions: parts}))
        return APIS[self.api].response(**{names.topics: topics})


@dataclass(frozen=True, slots=True)
class ByGroup:
    """A request that names groups."""

    api: ApiKey
    asked: str
    answered: str

    def topics(self, body: Any) -> Iterator[str]:
        yield OFFSETS_TOPIC

    def keys(self, body: Any) -> Iterator[Key]:
        for group in getattr(body, self.asked):
            yield group, 0

    def part(self, body: Any, wanted: Wanted) -> Any:
        groups = [group for group in getattr(body, self.asked) if wanted((group, 0))]
        return _with(body, self.asked, groups)

    def answers(self, response: Any) -> Iterator[tuple[Key, Any]]:
        for one in getattr(response, self.answered):
            yield (one.group_id, 0), one

    def join(self, body: Any, answers: Mapping[Key, Any]) -> Any:
        found = [answers[group, 0] for group in getattr(body, self.asked)]
        return APIS[self.api].response(**{self.answered: found})


def _with(message: Any, field: str, value: object) -> Any:
    changed = copy(message)
    setattr(changed, field, value)
    return changed


_USUAL: Final = _Names("topics", "name", "partitions", "partition_index")
PRODUCE: Final = ByPartition(
    ApiKey.PRODUCE,
    _Names("topic_data", "name", "partition_data", "index"),
    _Names("responses", "name", "partition_responses", "index"),
    produce.TopicProduceResponse,
)
FETCH: Final = ByPartition(
    ApiKey.FETCH,
    _Names("topics", "topic", "partitions", "partition"),
    _Names("responses", "topic", "partitions", "partition_index"),
    fetch.FetchableTopicResponse,
)
LIST_OFFSETS: Final = ByPartition(
    ApiKey.LIST_OFFSETS,
    _USUAL,
    _USUAL,
    list_offsets.ListOffsetsTopicResponse,
)
EPOCHS: Final = ByPartition(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    _Names("topics", "topic", "partitions", "partition"),
    _Names("topics", "topic", "partitions", "partition"),
    offset_for_leader_epoch.OffsetForLeaderTopicResult,
)
DELETE_RECORDS: Final = ByPartition(
    ApiKey.DELETE_RECORDS,
    _USUAL,
    _USUAL,
    delete_records.DeleteRecordsTopicResult,
)
DESCRIBE_GROUPS: Final = ByGroup(ApiKey.DESCRIBE_GROUPS, "groups", "groups")
DELETE_GROUPS: Final = ByGroup(ApiKey.DELETE_GROUPS, "groups_names", "results")
