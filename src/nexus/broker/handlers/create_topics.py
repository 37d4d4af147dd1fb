"""CreateTopics: versions 2 to 7.

Partition count and replication factor -1 take the broker's defaults. Replicas are on distinct
brokers, so a replication factor above the number of live brokers is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.topic_config import ConfigSource, effective
from nexus.cluster.port import NewTopic
from nexus.wire.errors import InvalidReplicaAssignment, InvalidRequest, ProtocolError
from nexus.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

DEFAULT: Final = -1


async def handle(
    broker: Broker, request: Request, body: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Make each topic; one that fails does not hinder the others."""
    names = [topic.name for topic in body.topics]
    return CreateTopicsResponse(
        topics=[
            await _create(broker, topic, body.validate_only, is_double=names.count(topic.name) > 1)
            for topic in body.topics
        ]
    )


async def _create(
    broker: Broker, wanted: CreatableTopic, validate_only: bool, *, is_double: bool
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=wanted.name)
    configs = {config.name: config.value for config in wanted.configs}
    try:
        if is_double:
            raise InvalidRequest(f"topic {wanted.name} is named twice in one request")
        new = _new_topic(broker, wanted)
        checked = broker.topics.check_new(wanted.name, new.partitions, configs)
        if not validate_only:
            made = await broker.admin.create(new._replace(configs=checked))
            result.topic_id = made.topic_id
        result.num_partitions = new.partitions
        result.replication_factor = new.replication
        result.configs = _configs(broker, new.partitions, checked)
    except ProtocolError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result


def _new_topic(broker: Broker, wanted: CreatableTopic) -> NewTopic:
    if wanted.assignments:
        return _assigned(broker, wanted)
    replication = broker.admin.replication(wanted.replication_factor)
    count = wanted.num_partitions
    if count == DEFAULT:
        count = broker.settings.broker.default_partitions
    return NewTopic(wanted.name, count, replication, {})


def _assigned(broker: Broker, wanted: CreatableTopic) -> NewTopic:
    if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
        raise InvalidRequest("give either assignments or counts, not both")
    placed = {one.partition_index: tuple(one.broker_ids) for one in wanted.assignments}
    assignment = tuple(replicas for _, replicas in sorted(placed.items()))
    if sorted(placed) != list(range(len(wanted.assignments))):
        raise InvalidReplicaAssignment("partitions are numbered from 0, each assigned once")
    check_assignment(broker, assignment)
    return NewTopic(wanted.name, len(assignment), len(assignment[0]), {}, assignment)


def check_assignment(broker: Broker, assignment: tuple[tuple[int, ...], ...]) -> None:
    """InvalidReplicaAssignment unless each partition is on as many distinct brokers that live."""
    live = broker.cluster.view.members
    for replicas in assignment:
        is_distinct = len(set(replicas)) == len(replicas) == len(assignment[0]) > 0
        if not is_distinct or not set(replicas) <= set(live):
            raise InvalidReplicaAssignment(
                f"replicas {list(replicas)}: expected distinct ones of {sorted(live)}"
            )


def _configs(broker: Broker, partitions: int, own: dict[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=name,
            value=value,
            config_source=ConfigSource.TOPIC if name in own else ConfigSource.DEFAULT,
        )
        for name, value in effective(broker.settings, partitions, own).items()
    ]
