"""CreateTopics (key 19): creates topics, or checks whether they could be created.

Version 4 allows -1 for the broker's default counts, 5 has flexible fields and answers with the
configuration, 7 with topic ids.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import (
    Kind,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    structure,
    uuid,
)


@structure
class CreatableReplicaAssignment:
    """Where one partition shall live."""

    partition_index: int = int32()
    broker_ids: list[int] = array(Kind.INT32)


@structure
class CreatableTopicConfig:
    """A setting for the topic."""

    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@structure
class CreatableTopic:
    """A topic to create."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message("2-7", flexible="5+")
class CreateTopicsRequest:
    """Topics to create."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@structure
class CreatableTopicConfigs:
    """A setting as the topic has it."""

    name: str = string()
    value: str | None = string(nullable="0+", default=None)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@structure
class CreatableTopicResult:
    """A topic as it was created, or why it was not."""

    name: str = string()
    topic_id: UUID = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


@message("2-7", flexible="5+")
class CreateTopicsResponse:
    """Which topics were created."""

    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
