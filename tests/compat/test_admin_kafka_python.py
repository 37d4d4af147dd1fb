"""Administration through kafka-python: what its admin client asks that confluent-kafka does not."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidTopicError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from support.broker import BrokerProcess
from support.confluent import send, watermarks
from support.members import KafkaPythonMember, wait_shared


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def test_topics_come_and_go(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 2, "configs": {"retention.ms": "9000"}}})
    admin.wait_for_topics([name])
    assert name in admin.list_topics()
    (described,) = admin.describe_topics([name])
    assert sorted(p["partition_index"] for p in described["partitions"]) == [0, 1]
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([name])
    admin.delete_topics([name])
    assert name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_a_topic_is_described_and_deleted_by_its_id(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics([name])
    (described,) = admin.describe_topics([name])
    topic_id = UUID(str(described["topic_id"]))
    (again,) = admin.describe_topics([topic_id])
    assert again["name"] == name
    admin.delete_topics([topic_id])
    assert name not in admin.list_topics()


def test_a_bad_name_is_refused(admin: KafkaAdminClient) -> None:
    with pytest.raises(InvalidTopicError):
        admin.create_topics(["no/slashes"])


def test_defaults_are_used_where_none_are_given(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics([name])
    (described,) = admin.describe_topics([name])
    assert len(described["partitions"]) >= 1


def test_partitions_are_added(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_partitions({topic: 3})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_altered_and_reset(
    admin: KafkaAdminClient, topic: str, incremental: bool
) -> None:
    def modified() -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        configs = admin.describe_configs([resource])["topic"][topic]
        return {key: config["value"] for key, config in configs.items()}

    def resource(**configs: str) -> ConfigResource:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return ConfigResource(ConfigResourceType.TOPIC, topic, configs=named)

    admin.alter_configs([resource(retention_ms="9000")], incremental=incremental)
    admin.alter_configs([resource(segment_ms="7000")], incremental=incremental)
    assert modified() == {"retention.ms": "9000", "segment.ms": "7000"}
    admin.reset_configs([resource(retention_ms="")], incremental=incremental)
    assert modified() == {"segment.ms": "7000"}


def test_records_are_deleted(broker: BrokerProcess, admin: KafkaAdminClient, topic: str) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    where = TopicPartition(topic, 0)
    assert admin.delete_records({where: 2})[where]["low_watermark"] == 2
    assert watermarks(broker.bootstrap, topic) == (2, 3)
    assert admin.delete_records({where: -1})[where]["low_watermark"] == 3


def test_offsets_are_listed_with_the_newest_timestamp(
    broker: BrokerProcess, admin: KafkaAdminClient, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    where = TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(admin.list_partition_offsets({where: spec})[where].offset)

    assert listed(OffsetSpec.EARLIEST) == 0
    assert listed(OffsetSpec.LATEST) == 3


def test_the_cluster_is_described(broker: BrokerProcess, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    assert described["cluster_id"]
    assert [(b["host"], b["port"]) for b in described["brokers"]] == [("127.0.0.1", broker.port)]


def test_a_groups_offsets_are_set_reset_and_deleted(
    broker: BrokerProcess, admin: KafkaAdminClient, topic: str, name: str
) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    where = TopicPartition(topic, 0)

    def committed() -> int | None:
        found = admin.list_group_offsets({name: [where]})[name].get(where)
        return None if found is None or found.offset < 0 else int(found.offset)

    done = admin.alter_group_offsets(name, {where: OffsetAndMetadata(2, "set by hand", -1)})
    assert done == {where: NoError}
    assert committed() == 2
    assert admin.reset_group_offsets(name, {where: OffsetSpec.LATEST})[where]["offset"] == 3
    assert committed() == 3
    assert admin.delete_group_offsets(name, [where]) == {where: NoError}
    assert committed() is None


def test_groups_are_listed_described_and_deleted(
    broker: BrokerProcess, admin: KafkaAdminClient, topic: str, name: str
) -> None:
    with KafkaPythonMember(broker.bootstrap, topic, name, "range") as member:
        wait_shared([member], 1)
        assert name in [group["group_id"] for group in admin.list_groups()]
        assert name in [g["group_id"] for g in admin.list_groups(states_filter=["Stable"])]
        assert name not in [g["group_id"] for g in admin.list_groups(states_filter=["Empty"])]
        described = admin.describe_groups([name])[name]
        assert described["group_state"] == "Stable"
        assert described["protocol_data"] == "range"
        assert len(described["members"]) == 1
    # A member that leaves commits; the group stays, empty, for its offsets.
    commit_something(broker, topic, name)
    assert admin.delete_groups([name]) == {name: "OK"}
    assert name not in [group["group_id"] for group in admin.list_groups()]


def commit_something(broker: BrokerProcess, topic: str, group: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)})
    finally:
        consumer.close()
