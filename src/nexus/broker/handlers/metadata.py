"""Metadata: brokers, topics and who leads each partition. Versions 0 to 12.

No topic list means all topics (in version 0 an empty one does). A topic that is asked for by name
and does not exist is made, where both the broker and the client allow it. Of a topic that is routed
by proxy, this broker is named as the leader; whoever is served by a proxy is told of no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexus.broker.dispatch import Request
from nexus.broker.topics import INTERNAL_TOPICS, Topic
from nexus.cluster.partition_state import NOBODY
from nexus.wire.errors import ErrorCode, ProtocolError, TopicAlreadyExists
from nexus.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


def handle(broker: Broker, request: Request, body: MetadataRequest) -> Any:
    """Describe the cluster; only making a topic has to wait."""
    wanted = body.topics
    if wanted is None or (request.version == 0 and not wanted):
        return _response(broker, request, [_described(broker, topic) for topic in broker.topics])
    if body.allow_auto_topic_creation and broker.settings.broker.auto_create_topics:
        missing = [t.name for t in wanted if t.name and _may_be_made(broker, t.name)]
        if missing:
            return _make_then_answer(broker, request, wanted, missing)
    return _response(broker, request, [_lookup(broker, topic) for topic in wanted])


def _may_be_made(broker: Broker, name: str) -> bool:
    return broker.topics.find(name) is None and name not in INTERNAL_TOPICS


async def _make_then_answer(
    broker: Broker, request: Request, wanted: list[MetadataRequestTopic], missing: list[str]
) -> MetadataResponse:
    failures: dict[str, ErrorCode] = {}
    for name in dict.fromkeys(missing):
        try:
            await broker.admin.ensure(name, broker.settings.broker.default_partitions, {})
        except TopicAlreadyExists:
            continue
        except ProtocolError as error:
            failures[name] = error.code
    answers = [
        _unknown(topic, failures[topic.name]) if topic.name in failures else _lookup(broker, topic)
        for topic in wanted
    ]
    return _response(broker, request, answers)


def _lookup(broker: Broker, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    if wanted.name is None:
        found = broker.topics.by_id(wanted.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = broker.topics.find(wanted.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _unknown(wanted, missing) if found is None else _described(broker, found)


def _unknown(wanted: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    # A topic that is unknown by its id has no name; versions below 12 need one, if empty.
    return MetadataResponseTopic(error_code=code, name=wanted.name or "", topic_id=wanted.topic_id)


def _described(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(broker, topic, index) for index in range(topic.count)],
    )


def _partition(broker: Broker, topic: Topic, index: int) -> MetadataResponsePartition:
    view = broker.cluster.view
    state = view.state(topic.name, index)
    if state is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE, partition_index=index, leader_id=NOBODY
        )
    leader = state.leader if state.leader in view.members else NOBODY
    if leader != NOBODY and broker.router.owners.is_routed(topic):
        leader = broker.settings.broker.id
    here = topic.partitions.get(index)
    failed = broker.settings.broker.id if here is not None and here.log.failure else NOBODY
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NOBODY else ErrorCode.NONE,
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.in_sync),
        offline_replicas=[n for n in state.replicas if n not in view.members or n == failed],
    )


def _response(
    broker: Broker, request: Request, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    me, is_proxy = broker.settings.broker.id, broker.router.owners.is_proxy
    # A topic may say for itself that its clients go to the leaders: then they are told of them.
    only_me = is_proxy and all(p.leader_id in (me, NOBODY) for t in topics for p in t.partitions)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.id, host=node.host, port=node.port, rack=node.rack or None
            )
            for node in broker.nodes_for(request.connection, only_me=only_me)
        ],
        cluster_id=broker.settings.cluster.cluster_id,
        controller_id=me if is_proxy else broker.cluster.view.controller,
        topics=topics,
    )
