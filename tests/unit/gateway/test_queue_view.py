"""What the queue says of itself, and that its absence is an answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from nexus.gateway import queue_view
from nexus.gateway.queue_view import QueueView
from nexus.queue.errors import QueueError
from support.broker import BrokerProcess
from support.confluent import admin_of, consumer_of, create_topic, deliver, poll_for, producer_of
from support.fixtures import MakeTopic
from support.ports import free_port

View = Callable[..., QueueView]


@pytest.fixture
def broker(own_broker: BrokerProcess) -> BrokerProcess:
    """One of its own: a view shows so many topics and groups, and the shared broker has more."""
    return own_broker


@pytest.fixture
def view_of() -> Iterator[View]:
    made: list[QueueView] = []

    def make(bootstrap: str, topic: str = "t", **options: Any) -> QueueView:
        made.append(QueueView(f"kafka://{bootstrap}/{topic}", **options))
        return made[-1]

    yield make
    for view in made:
        view.close()
        view.close()


def of(rows: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    return next(row for row in rows if row[key] == name)


def test_topics_have_their_partitions_with_start_end_and_messages(
    view_of: View, broker: BrokerProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    deliver(producer_of(broker.bootstrap), topic, [b"x"] * 7, partition=1)
    admin = admin_of(broker.bootstrap)
    (removed,) = admin.delete_records([TopicPartition(topic, 1, 2)]).values()
    removed.result(10)
    said = view_of(broker.bootstrap, topic).snapshot()
    assert (said["reachable"], said["topic"], said["problems"]) == (True, topic, [])
    assert abs(said["time"] - time.time() * 1000) < 60_000
    found = of(said["topics"], "topic", topic)
    assert (found["internal"], found["messages"]) == (False, 5)
    bounds = [(p["partition"], p["start"], p["end"], p["messages"]) for p in found["partitions"]]
    assert bounds == [(0, 0, 0, 0), (1, 2, 7, 5), (2, 0, 0, 0)]
    assert all(p["leader"] is not None for p in found["partitions"])


def test_of_too_many_topics_the_one_that_is_asked_for_is_shown(
    view_of: View, broker: BrokerProcess, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_view, "TOPICS_MAX", 1)
    make_topic()
    last = make_topic()
    said = view_of(broker.bootstrap, last).snapshot()
    assert [topic["topic"] for topic in said["topics"]] == [last]
    assert said["problems"] == ["2 topics: 1 of them are shown"]


def test_groups_have_members_state_and_lag_by_partition(
    view_of: View, broker: BrokerProcess, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(2)
    deliver(producer_of(broker.bootstrap), topic, [b"x"] * 9, partition=0)
    settings = {"group.id": name, "client.id": "reader", "session.timeout.ms": 6000}
    consumer = consumer_of(broker.bootstrap, **settings)
    try:
        consumer.subscribe([topic])
        poll_for(consumer, 4)
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        group = of(view_of(broker.bootstrap, topic).snapshot()["groups"], "group", name)
    finally:
        consumer.close()
    assert (group["state"], group["lag"]) == ("stable", 5)
    (member,) = group["members"]
    assert (member["client"], member["partitions"]) == ("reader", 2)
    shares = [(p["partition"], p["committed"], p["end"], p["lag"]) for p in group["partitions"]]
    assert shares == [(0, 4, 9, 5), (1, None, 0, 0)]
    assert {p["member"] for p in group["partitions"]} == {member["member"]}


def test_a_group_without_members_has_its_lag_too(
    view_of: View, broker: BrokerProcess, topic: str, name: str
) -> None:
    deliver(producer_of(broker.bootstrap), topic, [b"x"] * 5, partition=0)
    places = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 3)])
    admin = admin_of(broker.bootstrap)
    admin.alter_consumer_group_offsets([places])[name].result(10)
    group = of(view_of(broker.bootstrap, topic).snapshot()["groups"], "group", name)
    assert (group["state"], group["members"], group["lag"]) == ("empty", [], 2)


def test_an_answer_is_kept_for_a_while(view_of: View, broker: BrokerProcess, topic: str) -> None:
    lasting = view_of(broker.bootstrap, topic, keep_s=60)
    brief = view_of(broker.bootstrap, topic, keep_s=0.01)
    first, _ = lasting.snapshot(), brief.snapshot()
    deliver(producer_of(broker.bootstrap), topic, [b"x"], partition=0)
    time.sleep(0.02)
    assert lasting.snapshot() is first
    assert of(brief.snapshot()["topics"], "topic", topic)["messages"] == 1


def test_a_queue_that_is_away_is_said_so_in_time_to_all_who_ask(view_of: View) -> None:
    view = view_of(f"127.0.0.1:{free_port()}", timeout_s=0.5)
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: view.snapshot(), range(8)))
    assert time.monotonic() - begun < 30
    assert {answer["reachable"] for answer in answers} == {False}
    assert "no broker answers" in answers[0]["detail"]
    assert (answers[0]["topics"], answers[0]["groups"]) == ([], [])


def test_a_queue_that_comes_back_is_seen_again(
    view_of: View, own_broker: BrokerProcess, name: str
) -> None:
    create_topic(admin_of(own_broker.bootstrap), name)
    view = view_of(own_broker.bootstrap, name, keep_s=0.0, timeout_s=1.0)
    assert view.snapshot()["reachable"]
    own_broker.stop()
    assert not view.snapshot()["reachable"]
    own_broker.start()
    said = view.snapshot()
    assert (said["reachable"], said["topics"][0]["topic"]) == (True, name)


def test_an_address_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(QueueError, match="expected kafka://"):
        QueueView("amqp://somewhere/t")
