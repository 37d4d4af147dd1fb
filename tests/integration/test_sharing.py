"""Queues on a real broker: nothing is lost, and nothing comes again after it was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from nexus.wire.messages.share_fetch import AcknowledgeType
from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic, deliver, producer_of, send
from support.sharing import Delivered, Member
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

RELEASE, REJECT, RENEW = AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW
INVALID_RECORD_STATE = 121
GROUP = "workers"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(Path(tmp_path_factory.mktemp("sharing")))
    made.start()
    yield made
    assert made.faults() == []
    made.kill()


def queue(broker: BrokerProcess, name: str, count: int, **configs: str) -> str:
    """A topic of one partition with numbered messages."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    create_topic(admin_of(broker.bootstrap), name, 1, settings)
    send(broker.bootstrap, name, [b"%d" % n for n in range(count)])
    return name


def offsets(taken: list[Delivered]) -> list[int]:
    return [one.offset for one in taken]


def test_members_share_one_partition(broker: BrokerProcess) -> None:
    topic = queue(broker, "shared", 20)
    with Member(broker.port, GROUP, topic) as one, Member(broker.port, GROUP, topic) as other:
        first, second = one.take(8), other.take(100)
        assert offsets(first) == list(range(8))
        assert offsets(second) == list(range(8, 20))
        assert {one.record.value for one in first + second} == {b"%d" % n for n in range(20)}
        assert one.settle(offsets(first)) == 0
        # Another member's session, over another connection.
        assert one.settle(offsets(second), member=other.id) == 0
        assert one.settle([3]) == INVALID_RECORD_STATE


def test_what_a_dead_consumer_held_goes_to_another(broker: BrokerProcess) -> None:
    topic = queue(broker, "killed", 5)
    with Member(broker.port, GROUP, topic) as heir:
        dying = Member(broker.port, GROUP, topic)
        assert len(dying.take()) == 5
        assert dying.settle([0]) == 0
        assert heir.take(wait_ms=0) == []
        dying.hang_up()
        taken = heir.take_all(4)
        assert offsets(taken) == [1, 2, 3, 4]
        assert {one.attempt for one in taken} == {2}


def test_a_detached_member_holds_its_messages_without_a_connection(broker: BrokerProcess) -> None:
    topic = queue(broker, "detached", 2, queue_visibility_ms="3000")
    gone = Member(broker.port, GROUP, topic)
    assert len(gone.take(is_detached=True)) == 2
    gone.hang_up()
    with Member(broker.port, GROUP, topic) as other:
        assert other.take(wait_ms=300) == []
        assert other.settle([0], member=gone.id) == 0
        assert offsets(other.take_all(1)) == [1]


def test_what_is_not_acknowledged_in_time_comes_again(broker: BrokerProcess) -> None:
    topic = queue(broker, "lapsed", 2, queue_visibility_ms="1500")
    with Member(broker.port, GROUP, topic) as slow, Member(broker.port, GROUP, topic) as other:
        assert len(slow.take()) == 2
        taken = other.take_all(2)
        assert {one.attempt for one in taken} == {2}
        assert slow.settle([0]) == INVALID_RECORD_STATE
        assert other.settle([0, 1]) == 0


def test_who_asks_for_more_time_has_it(broker: BrokerProcess) -> None:
    topic = queue(broker, "renewed", 1, queue_visibility_ms="4000")
    with Member(broker.port, GROUP, topic) as slow, Member(broker.port, GROUP, topic) as other:
        slow.take()
        for _ in range(3):
            assert other.take(wait_ms=1500) == []
            assert slow.settle([0], RENEW) == 0
        assert slow.settle([0]) == 0


def test_a_message_is_given_back_at_once_or_later(broker: BrokerProcess) -> None:
    topic = queue(broker, "released", 2)
    with Member(broker.port, GROUP, topic) as member:
        member.take()
        assert member.settle([0], RELEASE) == 0
        assert member.settle([1], RELEASE, delay_ms=1500) == 0
        assert [(one.offset, one.attempt) for one in member.take(wait_ms=0)] == [(0, 2)]
        assert [(one.offset, one.attempt) for one in member.take_all(1)] == [(1, 2)]


def test_what_fails_too_often_or_is_rejected_is_among_the_dead_letters(
    broker: BrokerProcess,
) -> None:
    name = create_topic(admin_of(broker.bootstrap), "failing", 1, {"queue.max.deliveries": "2"})
    deliver(producer_of(broker.bootstrap), name, [b"a", b"b"], key=b"k", headers={"h": b"x"})
    with Member(broker.port, GROUP, name) as member:
        for _ in range(2):
            assert 0 in offsets(member.take())
            assert member.settle([0], RELEASE) == 0
        assert member.settle([1], REJECT, reason="no such host") == 0
        wait_until(
            lambda: "failing.dlq" in admin_of(broker.bootstrap).list_topics(timeout=10).topics
        )
        with Member(broker.port, "undertaker", "failing.dlq") as undertaker:
            dead = undertaker.take_all(2)
        assert member.take(wait_ms=0) == []
    headers = {one.record.value: dict(one.record.headers) for one in dead}
    assert {one.record.key for one in dead} == {b"k"}
    assert headers[b"a"]["h"] == b"x"
    assert headers[b"a"]["dlq-attempts"] == b"2"
    assert headers[b"a"]["dlq-topic"] == b"failing"
    assert headers[b"a"]["dlq-offset"] == b"0"
    assert headers[b"b"]["dlq-reason"] == b"no such host"
    assert b"2 times" in (headers[b"a"]["dlq-reason"] or b"")


def test_counts_are_among_the_metrics(broker: BrokerProcess) -> None:
    topic = queue(broker, "counted", 6)

    def counted(name: str) -> float:
        return broker.metric(f"nexus_broker_share_{name}", group=GROUP, topic=topic)

    with Member(broker.port, GROUP, topic) as member:
        assert len(member.take_all(5)) == 5
        assert member.settle([0, 1]) == 0
        assert member.settle([2], RELEASE) == 0
        assert member.settle([3], REJECT) == 0
        assert [one.attempt for one in member.take(1)] == [2]
        wait_until(lambda: counted("dead_lettered_total") == 1, what="the dead letter")
        assert (counted("delivered_total"), counted("acknowledged_total")) == (6, 2)
        assert (counted("depth"), counted("in_flight")) == (3, 2)
    assert broker.metric("nexus_broker_share_groups") >= 1


def test_a_new_group_starts_where_its_topic_says_and_keeps_that(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        topic = queue(broker, "late", 3, queue_auto_offset_reset="latest")
        with Member(broker.port, GROUP, topic) as member:
            assert member.take(wait_ms=0) == []
        send(broker.bootstrap, topic, [b"while nobody was there"])
        broker.kill()
        broker.start()
        with Member(broker.port, GROUP, topic) as member:
            assert offsets(member.take_all(1)) == [3]
    finally:
        broker.kill()


def test_a_fetch_brings_about_as_many_bytes_as_asked_for(broker: BrokerProcess) -> None:
    topic = create_topic(admin_of(broker.bootstrap), "large", 1)
    values = [b"%03d" % n + b"x" * 10_000 for n in range(100)]
    # In batches of some ten messages: one that is begun is sent whole.
    send(broker.bootstrap, topic, values, **{"batch.num.messages": 10, "linger.ms": 50})
    with Member(broker.port, GROUP, topic) as member:
        some = member.take(max_bytes=50_000)
        assert 0 < len(some) <= 20
        rest = member.take_all(100 - len(some), max_bytes=50_000)
    assert [one.record.value for one in some + rest] == values
    assert {one.attempt for one in some + rest} == {1}


def test_in_order_a_key_has_one_message_in_flight(broker: BrokerProcess) -> None:
    name = create_topic(admin_of(broker.bootstrap), "ordered", 1, {"queue.ordered": "true"})
    producer = producer_of(broker.bootstrap)
    for n in range(6):
        deliver(producer, name, [b"%d" % n], key=b"k%d" % (n % 2))
    with Member(broker.port, GROUP, name) as one, Member(broker.port, GROUP, name) as other:
        assert offsets(one.take()) == [0, 1]
        assert other.take(wait_ms=0) == []
        assert one.settle([0]) == 0
        assert offsets(other.take_all(1)) == [2]
        assert one.settle([1], RELEASE) == 0
        assert offsets(other.take_all(1)) == [1]


def test_a_queue_that_is_deep_enough_takes_no_more(broker: BrokerProcess) -> None:
    topic = queue(broker, "deep", 3, queue_max_depth="3")
    producer = producer_of(broker.bootstrap)
    with Member(broker.port, GROUP, topic) as member:
        taken = member.take()
        (refused,) = deliver(producer, topic, [b"more"])
        assert refused[0] is not None
        assert refused[0].code() == KafkaError.THROTTLING_QUOTA_EXCEEDED
        assert member.settle(offsets(taken)[:1]) == 0
        assert deliver(producer, topic, [b"more"])[0][0] is None


def test_the_depth_is_known_after_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        topic = queue(broker, "deep", 3, queue_max_depth="3")
        with Member(broker.port, GROUP, topic) as member:
            assert member.settle(offsets(member.take(1))) == 0
        send(broker.bootstrap, topic, [b"more"])
        broker.kill()
        broker.start()

        def refused() -> bool:
            ((error, _),) = deliver(producer_of(broker.bootstrap), topic, [b"too many"])
            return error is not None and error.code() == KafkaError.THROTTLING_QUOTA_EXCEEDED

        wait_until(refused, within=20)
    finally:
        broker.kill()


def test_a_killed_broker_forgets_no_acknowledgement(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    count, confirmed, seen = 300, set[int](), set[int]()
    try:
        topic = queue(broker, "crash", count, queue_max_deliveries="100")
        for round_ in range(3):
            with Member(broker.port, GROUP, topic) as member:
                taken = offsets(member.take(80))
                assert not confirmed & set(taken), "delivered after its acknowledgement"
                seen |= set(taken)
                # Some acknowledged, some not: what a crash finds.
                mine = taken[round_ % 2 :: 2]
                assert member.settle(mine) == 0
                confirmed |= set(mine)
                broker.kill()
            broker.start()
        with Member(broker.port, GROUP, topic) as member:
            rest = offsets(member.take_all(count - len(confirmed)))
            assert member.take(wait_ms=0) == []
        assert not confirmed & set(rest)
        assert confirmed | set(rest) == set(range(count))
    finally:
        broker.kill()
