"""CreateTopics: versions 2 to 7.

Partition count -1 takes the broker's default. A single broker holds every replica there is, so a
replication factor above the number of brokers is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nexus.broker.dispatch import Request
from nexus.broker.topic_config import ConfigSource, effective
from nexus.wire.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    ProtocolError,
)
from nexus.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

BROKERS: Final = 1
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
        count = _partition_count(broker, wanted)
        checked = broker.topics.check_new(wanted.name, count, configs)
        if not validate_only:
            result.topic_id = (await broker.topics.create(wanted.name, count, checked)).topic_id
        result.num_partitions = count
        result.replication_factor = BROKERS
        result.configs = _configs(broker, count, checked)
    except ProtocolError as error:
        result.error_code = error.code
        result.error_message = str(error)
    return result


def _partition_count(broker: Broker, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        return _assigned(broker, wanted)
    if wanted.replication_factor not in {DEFAULT, BROKERS}:
        raise InvalidReplicationFactor(
            f"replication factor {wanted.replication_factor} with {BROKERS} broker"
        )
    if wanted.num_partitions == DEFAULT:
        return broker.settings.broker.default_partitions
    return wanted.num_partitions


def _assigned(broker: Broker, wanted: CreatableTopic) -> int:
    if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
        raise InvalidRequest("give either assignments or counts, not both")
    indexes = sorted(one.partition_index for one in wanted.assignments)
    everyone = [broker.settings.broker.id]
    if indexes != list(range(len(indexes))) or any(
        one.broker_ids != everyone for one in wanted.assignments
    ):
        raise InvalidReplicaAssignment(
            f"partitions are numbered from 0, and every replica is on broker {everyone[0]}"
        )
    return len(indexes)


def _configs(broker: Broker, partitions: int, own: dict[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=name,
            value=value,
            config_source=ConfigSource.TOPIC if name in own else ConfigSource.DEFAULT,
        )
        for name, value in effective(broker.settings, partitions, own).items()
    ]
