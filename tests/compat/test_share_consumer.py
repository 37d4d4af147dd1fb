"""confluent-kafka's ShareConsumer, unchanged: it takes, accepts, releases, rejects and shares."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from support.broker import BrokerProcess
from support.confluent import producer_of, send
from support.fixtures import MakeTopic
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

# Takes messages, says how many, and holds them until it is killed.
HOLDER = """
import sys, time
from confluent_kafka import ShareConsumer
consumer = ShareConsumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
                          "share.acknowledgement.mode": "explicit"})
consumer.subscribe([sys.argv[3]])
while not (messages := [m for m in consumer.poll(1.0) if not m.error()]):
    pass
print(len(messages), flush=True)
time.sleep(600)
"""


def member(broker: BrokerProcess, group: str, topic: str, mode: str = "implicit") -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": mode,
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    return consumer


def polled(consumer: ShareConsumer) -> list[Message]:
    messages = list(consumer.poll(0.5))
    assert [m.error() for m in messages if m.error()] == []
    return messages


def poll_until_some(consumer: ShareConsumer) -> list[Message]:
    return wait_until(lambda: polled(consumer), within=40, what="messages")


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_it_takes_everything_once_and_commits(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    name = make_topic(3)
    producer = producer_of(broker.bootstrap)
    for n in range(300):
        producer.produce(name, b"%d" % n, partition=n % 3)
    assert producer.flush(20) == 0
    seen: Counter[bytes] = Counter()
    with closing(member(broker, f"{name}-g", name)) as consumer:

        def all_seen() -> bool:
            seen.update(m.value() or b"" for m in polled(consumer))
            return len(seen) == 300

        wait_until(all_seen, within=40)
        assert set(consumer.commit_sync(20.0).values()) <= {None}
    assert set(seen.values()) == {1}
    with closing(member(broker, f"{name}-g", name)) as consumer:
        send(broker.bootstrap, name, [b"last"])
        assert [m.value() for m in poll_until_some(consumer)] == [b"last"]


def test_what_it_releases_it_gets_again_and_what_it_rejects_it_does_not(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    name = make_topic()
    send(broker.bootstrap, name, numbers(3))
    with closing(member(broker, f"{name}-g", name, "explicit")) as consumer:
        seen: list[Message] = []

        def three() -> bool:
            new = polled(consumer)
            for message in new:
                kind = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT]
                consumer.acknowledge(message, kind[message.offset() or 0])
            seen.extend(new)
            return len(seen) >= 3

        wait_until(three, within=40)
        assert set(consumer.commit_sync(20.0).values()) <= {None}
        (again,) = poll_until_some(consumer)
        assert again.value() == b"1"
        consumer.acknowledge(again)
        assert set(consumer.commit_sync(20.0).values()) <= {None}


def test_several_share_one_partition(broker: BrokerProcess, make_topic: MakeTopic) -> None:
    name = make_topic()
    consumers = [member(broker, f"{name}-g", name) for _ in range(3)]
    try:
        for consumer in consumers:
            polled(consumer)
        seen: list[Counter[bytes]] = [Counter() for _ in consumers]
        producer = producer_of(broker.bootstrap, **{"batch.num.messages": 10})
        sent = 0

        def each_has_some() -> bool:
            nonlocal sent
            for _ in range(50):
                producer.produce(name, b"%d" % sent)
                sent += 1
            assert producer.flush(20) == 0
            for consumer, mine in zip(consumers, seen, strict=True):
                mine.update(m.value() or b"" for m in polled(consumer))
            return all(seen)

        wait_until(each_has_some, within=60)

        def all_seen() -> bool:
            for consumer, mine in zip(consumers, seen, strict=True):
                mine.update(m.value() or b"" for m in polled(consumer))
            return sum(len(mine) for mine in seen) == sent

        wait_until(all_seen, within=60)
        assert set(sum(seen, Counter[bytes]()).values()) == {1}
    finally:
        for consumer in consumers:
            consumer.close()


def test_what_a_killed_one_held_goes_to_another(
    broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    name = make_topic()
    send(broker.bootstrap, name, numbers(10))
    arguments = [sys.executable, "-c", HOLDER, broker.bootstrap, f"{name}-g", name]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert int(holder.stdout.readline()) > 0
        finally:
            os.kill(holder.pid, signal.SIGKILL)
    with closing(member(broker, f"{name}-g", name)) as consumer:
        seen: set[bytes] = set()

        def all_seen() -> bool:
            seen.update(m.value() or b"" for m in polled(consumer))
            return len(seen) == 10

        wait_until(all_seen, within=60)
