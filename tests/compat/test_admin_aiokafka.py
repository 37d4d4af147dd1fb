"""Administration through aiokafka's admin client, which knows the older versions of each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from support.broker import BrokerProcess
from support.confluent import send, watermarks


@asynccontextmanager
async def admin_client(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def with_admin(
    broker: BrokerProcess, story: Callable[[AIOKafkaAdminClient], Awaitable[None]]
) -> None:
    async def tell() -> None:
        async with admin_client(broker.bootstrap) as admin:
            await asyncio.wait_for(story(admin), 30)

    asyncio.run(tell())


def test_topics_and_partitions(broker: BrokerProcess, name: str) -> None:
    async def story(admin: AIOKafkaAdminClient) -> None:
        created = await admin.create_topics([NewTopic(name, 2, 1)])
        assert [error for _, error, *_ in created.topic_errors] == [0]
        assert name in await admin.list_topics()
        await admin.create_partitions({name: NewPartitions(5)})
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 5
        deleted = await admin.delete_topics([name])
        assert [error for _, error in deleted.topic_error_codes] == [0]
        assert name not in await admin.list_topics()

    with_admin(broker, story)


def test_configs(broker: BrokerProcess, topic: str) -> None:
    async def story(admin: AIOKafkaAdminClient) -> None:
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "8000"})]
        )
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (resource,) = answer.resources
        assert resource[0] == 0
        assert {entry[0]: entry[1] for entry in resource[4]}["retention.ms"] == "8000"

    with_admin(broker, story)


def test_deleting_records(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])

    async def story(admin: AIOKafkaAdminClient) -> None:
        where = TopicPartition(topic, 0)
        assert await admin.delete_records({where: RecordsToDelete(2)}) == {where: 2}

    with_admin(broker, story)
    assert watermarks(broker.bootstrap, topic) == (2, 3)


def test_groups(broker: BrokerProcess, topic: str, name: str) -> None:
    where = TopicPartition(topic, 0)

    async def story(admin: AIOKafkaAdminClient) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=name, enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign([where])
        await consumer.commit({where: OffsetAndMetadata(0, "note")})
        await consumer.stop()
        assert name in [group for group, _ in await admin.list_consumer_groups()]
        assert await admin.find_coordinator(name) >= 0
        offsets = await admin.list_consumer_group_offsets(name)
        assert offsets == {where: OffsetAndMetadata(0, "note")}
        (described,) = await admin.describe_consumer_groups([name])
        assert [group[1] for group in described.groups] == [name]

    with_admin(broker, story)
