"""The view of a cluster, as keys of etcd come and go."""

from __future__ import annotations

from uuid import uuid4

from nexus.cluster.etcd import keys
from nexus.cluster.etcd.keys import Places
from nexus.cluster.etcd.viewing import Viewing
from nexus.cluster.partition_state import NOBODY, PartitionState
from nexus.cluster.port import Member, TopicInfo
from nexus.etcd import Event, KeyValue

PLACES = Places.of("test")
STATE = PartitionState((1, 2), 1, 3, (1, 2), (2, 3))
TOPIC = TopicInfo("a.b-c", uuid4(), 2, {"retention.ms": "1000"})


def item(key: bytes, value: bytes, revision: int = 5, lease: int = 0) -> KeyValue:
    return KeyValue(key, value, revision, revision, 1, lease)


def gone(key: bytes) -> Event:
    return Event(True, item(key, b""), None)


def test_what_is_put_is_what_is_seen() -> None:
    viewing = Viewing(PLACES)
    me = Member(1, "host", 9092, "r1", kept_all=False)
    viewing.list(
        [
            item(PLACES.broker(1), keys.member_value(me, "d"), 7, lease=99),
            item(PLACES.controller, b"1"),
            item(PLACES.leaving(2), b""),
            item(PLACES.topic(TOPIC.name), keys.topic_value(TOPIC)),
            item(PLACES.partition((TOPIC.name, 0)), keys.state_value(STATE), 9),
            item(PLACES.producer_ids, b"{}"),
        ],
        20,
    )
    view = viewing.view
    assert view.members == {1: me._replace(registered=7)}
    assert viewing.leases == {1: 99}
    assert (view.controller, view.leaving, view.revision) == (1, {2}, 20)
    assert view.topics == {TOPIC.name: TOPIC}
    state = view.state(TOPIC.name, 0)
    assert state is not None
    assert state.version == 9
    assert (state.replicas, state.target) == (STATE.replicas, STATE.target)
    assert viewing.take_changes() == ({(TOPIC.name, 0)}, {TOPIC.name})
    assert viewing.take_changes() == (set(), set())


def test_what_is_deleted_is_seen_no_more() -> None:
    viewing = Viewing(PLACES)
    put = [
        item(PLACES.topic(TOPIC.name), keys.topic_value(TOPIC)),
        item(PLACES.partition((TOPIC.name, 0)), keys.state_value(STATE)),
        item(PLACES.controller, b"1"),
    ]
    viewing.list(put, 20)
    viewing.take_changes()
    viewing.follow([gone(each.key) for each in put], 21)
    assert viewing.view.topics == {}
    assert viewing.view.partitions == {}
    assert viewing.view.controller == NOBODY
    assert viewing.view.deleted == {TOPIC.name}
    assert viewing.take_changes() == ({(TOPIC.name, 0)}, {TOPIC.name})


def test_a_topic_that_is_merely_missing_from_a_new_listing_does_not_count_as_deleted() -> None:
    viewing = Viewing(PLACES)
    viewing.list([item(PLACES.topic(TOPIC.name), keys.topic_value(TOPIC))], 20)
    viewing.take_changes()
    viewing.list([], 30)
    assert viewing.view.deleted == set()
    assert viewing.take_changes() == (set(), {TOPIC.name})


def test_what_cannot_be_understood_is_left_out() -> None:
    viewing = Viewing(PLACES)
    viewing.list([item(PLACES.topic("t"), b"no json"), item(PLACES.root + b"new/thing", b"")], 20)
    assert viewing.view.topics == {}
