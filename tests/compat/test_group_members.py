"""Consumer groups with the real clients: members come and go, and nothing is skipped.

Every assignor a client has is driven through the same story, then static members, mixed clients
and a broker that restarts under a group.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, deliver, error_names, producer_of
from support.fixtures import MakeTopic
from support.members import MEMBERS, Member, wait_shared
from support.needs import need_program
from support.waiting import wait_until

PARTITIONS = 6
STRATEGIES = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "sticky"),
    ("kafka-python", "cooperative-sticky"),
    ("aiokafka", "range"),
    ("aiokafka", "roundrobin"),
    ("aiokafka", "sticky"),
]


@pytest.fixture
def members() -> Iterator[ExitStack]:
    """Members entered here leave their group with the test."""
    with ExitStack() as stack:
        yield stack


def publish(broker: BrokerProcess, topic: str, label: str) -> set[bytes]:
    """Five messages for each partition, told apart from those of other rounds."""
    producer = producer_of(broker.bootstrap)
    values = {
        p: [b"%s-%d-%d" % (label.encode(), p, n) for n in range(5)] for p in range(PARTITIONS)
    }
    for partition, batch in values.items():
        assert error_names(deliver(producer, topic, batch, partition=partition)) == set()
    return {value for batch in values.values() for value in batch}


def wait_seen(values: set[bytes], *members: Member) -> None:
    def missing() -> set[bytes]:
        return values - {value for member in members for _, _, value in member.seen if value}

    wait_until(lambda: not missing(), within=20, what="every message seen by the group")


@pytest.mark.parametrize(("client", "assignor"), STRATEGIES)
def test_members_come_and_go_and_nothing_is_skipped(
    broker: BrokerProcess, make_topic: MakeTopic, members: ExitStack, client: str, assignor: str
) -> None:
    topic = make_topic(partitions=PARTITIONS)

    def join() -> Member:
        member = MEMBERS[client](broker.bootstrap, topic, f"group-{topic}", assignor)
        return members.enter_context(member)

    first = join()
    wait_shared([first], PARTITIONS)
    wait_seen(publish(broker, topic, "alone"), first)

    second = join()
    wait_shared([first, second], PARTITIONS)
    wait_seen(publish(broker, topic, "both"), first, second)
    assert {len(first.partitions), len(second.partitions)} == {3}

    first.close()
    wait_shared([second], PARTITIONS)
    wait_seen(publish(broker, topic, "the-other"), second)
    for member in (first, second):
        assert_in_order(member)


def assert_in_order(member: Member) -> None:
    """Between two rebalances positions only grow; a rebalance may go back to a commit, once."""
    for partition in range(PARTITIONS):
        offsets = [offset for at, offset, _ in member.seen if at == partition]
        backwards = sum(1 for one, two in pairwise(offsets) if two <= one)
        assert backwards <= 2, (partition, offsets)


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
def test_a_static_member_comes_back_to_its_partitions(
    broker: BrokerProcess, make_topic: MakeTopic, members: ExitStack, client: str
) -> None:
    """A static member that leaves and returns within its session costs no rebalance."""
    topic = make_topic(partitions=PARTITIONS)
    group = f"group-{topic}"

    def join(instance: str) -> Member:
        member = MEMBERS[client](broker.bootstrap, topic, group, "range", instance)
        return members.enter_context(member)

    stays, leaves = join("stays"), join("leaves")
    wait_shared([stays, leaves], PARTITIONS)
    had = leaves.partitions
    stays_with = stays.partitions
    leaves.close()
    back = join("leaves")
    wait_until(lambda: back.partitions == had, what="the same partitions again")
    assert stays.partitions == stays_with
    admin = admin_of(broker.bootstrap)
    description = admin.describe_consumer_groups([group])[group].result(10)
    assert {m.group_instance_id for m in description.members} == {"stays", "leaves"}


def test_a_member_that_dies_is_replaced_when_its_session_ends(
    broker: BrokerProcess, make_topic: MakeTopic, members: ExitStack
) -> None:
    """kill -9 says no goodbye: only the missing heartbeats tell."""
    program = need_program("kcat")
    topic = make_topic(partitions=PARTITIONS)
    group = f"group-{topic}"
    settings = ["-X", "session.timeout.ms=1500", "-X", "heartbeat.interval.ms=150"]
    command = [program, "-b", broker.bootstrap, "-G", group, *settings, topic]
    doomed = members.enter_context(
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    )
    members.callback(doomed.kill)
    survivor = members.enter_context(MEMBERS["confluent"](broker.bootstrap, topic, group, "range"))
    wait_until(lambda: len(survivor.partitions) == 3, within=20, what="a group of two")
    doomed.kill()
    wait_shared([survivor], PARTITIONS)


def test_clients_of_every_kind_share_one_group(
    broker: BrokerProcess, make_topic: MakeTopic, members: ExitStack
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    everyone = [
        members.enter_context(MEMBERS[client](broker.bootstrap, topic, f"group-{topic}", "range"))
        for client in MEMBERS
    ]
    wait_shared(everyone, PARTITIONS)
    wait_seen(publish(broker, topic, "mixed"), *everyone)


def test_a_group_outlives_a_broker_that_is_killed(
    own_broker: BrokerProcess, members: ExitStack, name: str
) -> None:
    """Members keep or regain their partitions, and commits from before the kill are not lost."""
    admin = admin_of(own_broker.bootstrap)
    create_topic(admin, name, PARTITIONS)
    pair = [
        members.enter_context(MEMBERS["confluent"](own_broker.bootstrap, name, "group", "range"))
        for _ in range(2)
    ]
    wait_shared(pair, PARTITIONS)
    before = publish(own_broker, name, "before")
    wait_seen(before, *pair)
    wait_until(lambda: committed(own_broker, "group") == 5 * PARTITIONS, what="the commits")

    own_broker.kill()
    own_broker.start()
    assert committed(own_broker, "group") == 5 * PARTITIONS
    wait_seen(publish(own_broker, name, "after"), *pair)
    wait_shared(pair, PARTITIONS)


def committed(broker: BrokerProcess, group: str) -> int:
    """The sum of a group's committed offsets."""
    admin = admin_of(broker.bootstrap)
    asked = [ConsumerGroupTopicPartitions(group)]
    answer = admin.list_consumer_group_offsets(asked)[group].result(10)
    return sum(max(partition.offset, 0) for partition in answer.topic_partitions)
