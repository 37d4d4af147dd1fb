"""Metadata (key 3): names the brokers, the topics and each partition's leader.

In version 0 an empty list asks for all topics; from 1 on, null does, and empty asks for none.

Version 1 adds racks, the controller and internal topics, 2 the cluster's id, 4 a say in
auto-creation, 5 offline replicas, 7 leader epochs, 8 authorized operations (the cluster's until
10), 9 flexible fields, 10 topic ids, 12 a request by topic id alone.
"""

from __future__ import annotations

from uuid import UUID

from nexus.wire.fields import Kind, array, boolean, int16, int32, message, string, structure, uuid


@structure
class MetadataRequestTopic:
    """A topic, by name or by id."""

    topic_id: UUID = uuid("10+")
    name: str | None = string(nullable="10+")


@message("0-12", flexible="9+")
class MetadataRequest:
    """Which topics to describe."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@structure
class MetadataResponseBroker:
    """A broker and where to reach it."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


@structure
class MetadataResponsePartition:
    """A partition, its leader and its replicas."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(Kind.INT32)
    isr_nodes: list[int] = array(Kind.INT32)
    offline_replicas: list[int] = array(Kind.INT32, "5+")


@structure
class MetadataResponseTopic:
    """A topic and its partitions."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: UUID = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-(2**31))


@message("0-12", flexible="9+")
class MetadataResponse:
    """The cluster as a client must know it."""

    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
