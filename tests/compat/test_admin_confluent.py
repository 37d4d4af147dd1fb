"""Administration through confluent-kafka: topics, partitions, configs, records, groups, offsets."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from support.broker import BrokerProcess
from support.confluent import (
    admin_of,
    consumer_of,
    create_topic,
    read,
    send,
    values_in,
    watermarks,
)
from support.fixtures import MakeTopic
from support.members import ConfluentMember, wait_shared
from support.waiting import wait_until

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # a UUID of zeros, as librdkafka writes it


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return admin_of(broker.bootstrap)


def refusal(future: Future[Any]) -> str:
    """The name of the error that a call was answered with."""
    with pytest.raises(KafkaException) as refused:
        future.result(10)
    return str(refused.value.args[0].name())


def test_a_topic_is_created_described_and_deleted(admin: AdminClient, name: str) -> None:
    create_topic(admin, name, 3)
    described = admin.describe_topics(TopicCollection([name]))[name].result(10)
    assert described.name == name
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert {p.leader.id for p in described.partitions} == {described.partitions[0].replicas[0].id}
    assert not described.is_internal
    assert str(described.topic_id) != NO_ID

    admin.delete_topics([name], operation_timeout=10)[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics
    assert refusal(admin.delete_topics([name])[name]) == "UNKNOWN_TOPIC_OR_PART"


def test_a_topic_created_again_starts_empty(
    broker: BrokerProcess, admin: AdminClient, name: str
) -> None:
    for _ in range(2):
        create_topic(admin, name)
        assert send(broker.bootstrap, name, [b"one", b"two"]) == [0, 1]
        admin.delete_topics([name], operation_timeout=10)[name].result(10)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewTopic("bad name", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("bad/name", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("..", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic(".", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("n" * 250, 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("no-partitions", 0, 1), "INVALID_PARTITIONS"),
        (NewTopic("many-replicas", 1, 3), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("odd-config", 1, 1, config={"no.such.key": "1"}), "INVALID_CONFIG"),
        (NewTopic("odd-value", 1, 1, config={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (NewTopic("odd-policy", 1, 1, config={"cleanup.policy": "burn"}), "INVALID_CONFIG"),
    ],
    ids=lambda value: value.topic[:20] if isinstance(value, NewTopic) else str(value),
)
def test_an_impossible_topic_is_refused_with_its_error(
    admin: AdminClient, wanted: NewTopic, error: str
) -> None:
    assert refusal(admin.create_topics([wanted])[wanted.topic]) == error
    assert wanted.topic not in admin.list_topics(timeout=10).topics


def test_the_longest_topic_name_works(broker: BrokerProcess, admin: AdminClient, name: str) -> None:
    longest = name + "n" * (249 - len(name))
    create_topic(admin, longest)
    send(broker.bootstrap, longest, [b"v"])
    assert values_in(broker.bootstrap, longest) == [b"v"]


def test_creating_a_topic_twice_is_refused(admin: AdminClient, topic: str) -> None:
    assert refusal(admin.create_topics([NewTopic(topic, 1, 1)])[topic]) == "TOPIC_ALREADY_EXISTS"


def test_validate_only_creates_nothing(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics


def test_partitions_are_added_and_never_taken_away(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"before"])
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4
    assert values_in(broker.bootstrap, topic) == [b"before"]
    assert watermarks(broker.bootstrap, topic, 3) == (0, 0)
    assert (
        refusal(admin.create_partitions([NewPartitions(topic, 2)])[topic]) == "INVALID_PARTITIONS"
    )


def configs_of(admin: AdminClient, resource: ConfigResource) -> dict[str, ConfigEntry]:
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(10)
    return found


def test_configs_are_described_with_all_defaults(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"retention.ms": "60000"})
    configs = configs_of(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
    assert {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    } <= set(configs)
    assert configs["retention.ms"].value == "60000"
    assert ConfigSource(configs["retention.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert configs["cleanup.policy"].value == "delete"
    assert configs["cleanup.policy"].is_default


def test_the_brokers_own_configs_are_described(admin: AdminClient) -> None:
    node = next(iter(admin.list_topics(timeout=10).brokers))
    assert configs_of(admin, ConfigResource(ConfigResource.Type.BROKER, str(node)))


def test_configs_of_an_unknown_topic_are_an_error(admin: AdminClient, name: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    assert refusal(admin.describe_configs([resource])[resource]) == "UNKNOWN_TOPIC_OR_PART"


def test_incremental_changes_leave_the_other_configs(
    admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"retention.ms": "60000", "cleanup.policy": "compact"})
    change(admin, topic, ("max.message.bytes", "2000", AlterConfigOpType.SET))
    change(admin, topic, ("cleanup.policy", "delete", AlterConfigOpType.APPEND))
    change(admin, topic, ("retention.ms", None, AlterConfigOpType.DELETE))
    configs = configs_of(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
    assert configs["max.message.bytes"].value == "2000"
    assert set(str(configs["cleanup.policy"].value).split(",")) == {"compact", "delete"}
    assert configs["retention.ms"].is_default

    change(admin, topic, ("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT))
    configs = configs_of(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
    assert configs["cleanup.policy"].value == "delete"


def change(
    admin: AdminClient, topic: str, entry: tuple[str, str | None, AlterConfigOpType]
) -> None:
    key, value, operation = entry
    entries = [ConfigEntry(key, value, incremental_operation=operation)]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_full_change_replaces_all_configs(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"retention.ms": "60000"})
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, topic, set_config={"max.message.bytes": "5000"}
    )
    admin.alter_configs([resource])[resource].result(10)
    configs = configs_of(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
    assert configs["max.message.bytes"].value == "5000"
    assert configs["retention.ms"].is_default


def test_an_impossible_config_change_is_refused_whole(admin: AdminClient, topic: str) -> None:
    entries = [
        ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("segment.bytes", "none", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    assert refusal(admin.incremental_alter_configs([resource])[resource]) == "INVALID_CONFIG"
    configs = configs_of(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
    assert configs["retention.ms"].is_default


def test_deleted_records_are_gone_and_the_rest_stays(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"%d" % n for n in range(10)])
    where = TopicPartition(topic, 0, 6)
    assert admin.delete_records([where])[where].result(10).low_watermark == 6
    assert watermarks(broker.bootstrap, topic) == (6, 10)
    assert [m.offset() for m in read(broker.bootstrap, topic, 4)] == [6, 7, 8, 9]
    beyond = TopicPartition(topic, 0, 11)
    assert refusal(admin.delete_records([beyond])[beyond]) == "OFFSET_OUT_OF_RANGE"


def test_offsets_are_listed_by_kind_and_by_time(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    stamp = read(broker.bootstrap, topic, 2)[1].timestamp()[1]
    where = TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({where: spec})[where].result(10).offset)

    assert listed(OffsetSpec.earliest()) == 0
    assert listed(OffsetSpec.latest()) == 3
    assert listed(OffsetSpec.for_timestamp(stamp)) <= 1
    assert listed(OffsetSpec.for_timestamp(stamp + 3_600_000)) == -1


def test_the_cluster_describes_itself(broker: BrokerProcess, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(10)
    assert described.cluster_id
    assert [(node.host, node.port) for node in described.nodes] == [("127.0.0.1", broker.port)]
    assert described.controller.id == described.nodes[0].id


def commit(broker: BrokerProcess, group: str, topic: str, offset: int) -> None:
    consumer = consumer_of(broker.bootstrap, **{"group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def test_a_group_is_listed_described_and_deleted(
    broker: BrokerProcess, admin: AdminClient, topic: str, name: str
) -> None:
    commit(broker, name, topic, 1)
    assert name in [g.group_id for g in admin.list_consumer_groups().result(10).valid]
    described = admin.describe_consumer_groups([name])[name].result(10)
    assert described.state == ConsumerGroupState.EMPTY

    admin.delete_consumer_groups([name])[name].result(10)
    assert name not in [g.group_id for g in admin.list_consumer_groups().result(10).valid]
    assert refusal(admin.delete_consumer_groups([name])[name]) == "GROUP_ID_NOT_FOUND"


def test_a_group_with_members_shows_them_and_cannot_be_deleted(
    broker: BrokerProcess, admin: AdminClient, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(partitions=2)
    with ConfluentMember(broker.bootstrap, topic, name, "range") as member:
        wait_shared([member], 2)
        described = admin.describe_consumer_groups([name])[name].result(10)
        assert described.state == ConsumerGroupState.STABLE
        assert described.partition_assignor == "range"
        held = described.members[0].assignment.topic_partitions
        assert sorted((p.topic, p.partition) for p in held) == [(topic, 0), (topic, 1)]
        assert described.members[0].host
        assert refusal(admin.delete_consumer_groups([name])[name]) == "NON_EMPTY_GROUP"
        assert change_offsets(admin, name, topic, 0) == "UNKNOWN_MEMBER_ID"
    wait_until(lambda: state_of(admin, name) == ConsumerGroupState.EMPTY, what="an empty group")


def state_of(admin: AdminClient, group: str) -> ConsumerGroupState:
    described = admin.describe_consumer_groups([group])[group].result(10)
    state: ConsumerGroupState = described.state
    return state


def change_offsets(admin: AdminClient, group: str, topic: str, offset: int) -> str:
    """Set a group's offset; the name of the error, or nothing."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    try:
        done = admin.alter_consumer_group_offsets([wanted])[group].result(10)
    except KafkaException as refused:
        return str(refused.args[0].name())
    error = done.topic_partitions[0].error
    return error.name() if error else ""


def test_the_offsets_of_an_empty_group_can_be_set(
    broker: BrokerProcess, admin: AdminClient, topic: str, name: str
) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    commit(broker, name, topic, 3)
    assert change_offsets(admin, name, topic, 1) == ""
    asked = [ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0)])]
    answer = admin.list_consumer_group_offsets(asked)[name].result(10)
    assert answer.topic_partitions[0].offset == 1


def test_the_internal_topic_exists_once_groups_do(
    broker: BrokerProcess, admin: AdminClient, topic: str, name: str
) -> None:
    commit(broker, name, topic, 1)
    internal = "__consumer_offsets"
    described = admin.describe_topics(TopicCollection([internal]))[internal].result(10)
    assert described.is_internal
    assert len(described.partitions) == 16
    resource = ConfigResource(ConfigResource.Type.TOPIC, internal)
    assert configs_of(admin, resource)["cleanup.policy"].value == "compact"
