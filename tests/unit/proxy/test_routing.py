"""Where messages go: by key as Kafka's producers, in turn, on from a static owner that is down."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from nexus.proxy.routing import Routing
from nexus.proxy.topology import Topic, Topology
from nexus.queue.partitioners import murmur2

PARTITIONS = 12


def topology(*, is_static: bool, owners: tuple[int, ...] = (1, 2, 3)) -> Topology:
    made = Topology((("127.0.0.1", 1),), 1.0, is_static=is_static)
    for node in owners:
        made.brokers[node] = made._broker(str(node), ("127.0.0.1", node))
    leaders = tuple(owners[n % len(owners)] for n in range(PARTITIONS))
    made.topics = {"t": Topic("t", UUID(int=1), leaders, tuple((n,) for n in leaders))}
    return made


def take_down(made: Topology, node: int) -> None:
    while made.brokers[node].is_up:
        made.brokers[node].failed("it does not answer")


def by_key(routing: Routing, key: bytes, **more: Any) -> tuple[int, int | None]:
    place = routing.by_key("t", key, PARTITIONS, **{"may_move": True, **more})
    return place.partition, place.home


def test_a_key_goes_where_kafkas_producers_send_it() -> None:
    routing = Routing(topology(is_static=False))
    for number in range(100):
        key = b"gpu-%d" % number
        assert by_key(routing, key) == (murmur2(key) % PARTITIONS, None)


def test_without_a_key_messages_take_turns() -> None:
    routing = Routing(topology(is_static=False))
    seen = []
    for _ in range(PARTITIONS):
        place = routing.in_turn("t", PARTITIONS)
        assert routing.in_turn("t", PARTITIONS) == place  # until a batch has left
        routing.turn("t", place.partition)
        seen.append(place.partition)
    assert sorted(seen) == list(range(PARTITIONS))


def test_turns_pass_by_partitions_whose_owner_is_down() -> None:
    made = topology(is_static=True)
    take_down(made, 2)
    routing = Routing(made)
    seen = set()
    for _ in range(PARTITIONS * 2):
        place = routing.in_turn("t", PARTITIONS)
        routing.turn("t", place.partition)
        seen.add(made.topics["t"].leaders[place.partition])
    assert seen == {1, 3}


def test_while_a_static_owner_is_down_its_keys_go_on_to_others_and_say_whose_they_are() -> None:
    made = topology(is_static=True)
    routing = Routing(made)
    homes = {b"k%d" % n: by_key(routing, b"k%d" % n)[0] for n in range(200)}
    take_down(made, 2)
    moved = {key: by_key(routing, key) for key in homes}
    for key, (partition, home) in moved.items():
        if made.topics["t"].leaders[homes[key]] == 2:
            assert home == homes[key]
            assert made.topics["t"].leaders[partition] in (1, 3)
        else:
            assert (partition, home) == (homes[key], None)
    assert len({partition for partition, home in moved.values() if home is not None}) > 3
    assert {key: by_key(Routing(made), key) for key in homes} == moved  # the same everywhere


def test_a_key_stays_in_a_cluster_whose_leaders_move() -> None:
    made = topology(is_static=False)
    take_down(made, 2)
    routing = Routing(made)
    assert all(by_key(routing, b"k%d" % n)[1] is None for n in range(100))


def test_a_key_stays_where_moving_could_write_it_twice() -> None:
    made = topology(is_static=True)
    take_down(made, 2)
    routing = Routing(made)
    assert all(by_key(routing, b"k%d" % n, may_move=False)[1] is None for n in range(100))
