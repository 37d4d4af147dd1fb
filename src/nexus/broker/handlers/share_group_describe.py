"""ShareGroupDescribe: who is in share groups, and what each member reads. Version 1.

Members are the coordinator's to tell. Every broker adds, in fields of ours, how far the group is in
the partitions that it leads, and who takes messages there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus.broker.dispatch import Request
from nexus.broker.sharing.queue import Queue as LedQueue
from nexus.groups.share_members import ShareMember
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    Queue,
    Reader,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

ASSIGNOR = "simple"


async def handle(
    broker: Broker, request: Request, body: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Show the groups that are coordinated here."""
    return ShareGroupDescribeResponse(
        groups=[await _described(broker, group_id) for group_id in body.group_ids]
    )


async def _described(broker: Broker, group_id: str) -> DescribedGroup:
    described = await _members(broker, group_id)
    sharing = broker.sharing
    described.queues = [_queue(one) for one in sharing.led() if one.group == group_id]
    described.readers = [
        Reader(member_id=one.key.member, client_host=one.connection.peer_host)
        for one in sharing.sessions
        if one.key.group == group_id
    ]
    return described


def _queue(queue: LedQueue) -> Queue:
    return Queue(
        topic_name=queue.partition.topic,
        partition=queue.partition.index,
        start_offset=queue.start,
        end_offset=queue.partition.high_watermark,
        waiting=queue.waiting,
        in_flight=queue.in_flight,
    )


async def _members(broker: Broker, group_id: str) -> DescribedGroup:
    if await broker.groups.coordinator_of(group_id) != broker.settings.broker.id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR)
    broker.sharing.groups.tick(broker.sharing.now_ms())
    group = broker.sharing.groups.groups.get(group_id)
    if group is None:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message="nobody is in such a share group",
        )
    return DescribedGroup(
        group_id=group_id,
        group_state="Stable",
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=[_member(broker, name, member) for name, member in group.members.items()],
    )


def _member(broker: Broker, name: str, member: ShareMember) -> Member:
    parts = [
        TopicPartitions(topic_id=topic.topic_id, topic_name=name, partitions=list(partitions))
        for name, partitions in member.assigned.items()
        if (topic := broker.topics.find(name)) is not None
    ]
    return Member(
        member_id=name,
        member_epoch=member.told_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=Assignment(topic_partitions=parts),
    )
