"""Sharing out: no client gets more than it has room for, and nothing that was taken lies idle."""

from __future__ import annotations

import asyncio
from time import monotonic

from nexus.proxy.sharing.acknowledging import Acknowledging
from nexus.proxy.sharing.consumer import READY_BYTES_MAX, Consumer, shares
from nexus.proxy.sharing.deliveries import Delivered
from nexus.proxy.sharing.desk import Desk
from nexus.proxy.topology import Topology
from nexus.wire.records import Record


def made_desk() -> Desk:
    topology = Topology((("127.0.0.1", 1),), 1.0)
    return Desk(topology, Acknowledging(topology), "g", "t", is_detached=False)


def message(offset: int) -> Delivered:
    return Delivered(0, offset, 1, Record(offset, 0, None, b"x"))


def arrive(desk: Desk, count: int, first: int = 0) -> None:
    desk._hand([message(offset) for offset in range(first, first + count)], monotonic() + 30)


def test_messages_go_to_those_with_room() -> None:
    async def story() -> None:
        desk, small, large = made_desk(), Consumer(2), Consumer(5)
        desk.join(small)
        desk.join(large)
        arrive(desk, 7)
        assert (len(small.held), len(large.held)) == (2, 5)

    asyncio.run(story())


def test_what_came_without_room_goes_to_the_first_who_has_some() -> None:
    async def story() -> None:
        desk, consumer = made_desk(), Consumer(2)
        desk.join(consumer)
        arrive(desk, 5)
        assert len(consumer.held) == 2
        desk.settled([(0, 0), (0, 1)])
        assert list(consumer.held) == [(0, 2), (0, 3)]
        late = Consumer(2)
        desk.join(late)
        assert list(late.held) == [(0, 4)]

    asyncio.run(story())


def test_a_message_whose_time_was_up_is_not_sent_any_more() -> None:
    async def story() -> None:
        desk, consumer = made_desk(), Consumer(2)
        desk.join(consumer)
        arrive(desk, 2)
        consumer.forget_expired(monotonic() + 60)
        assert consumer.take(1 << 20) == []
        assert consumer.room == 2

    asyncio.run(story())


def test_who_settles_a_message_makes_room() -> None:
    async def story() -> None:
        desk, consumer = made_desk(), Consumer(1)
        desk.join(consumer)
        arrive(desk, 1)
        assert consumer.room == 0
        desk.settled([(0, 0), (0, 99)])
        assert consumer.room == 1

    asyncio.run(story())


def test_nothing_is_taken_for_a_client_that_reads_nothing() -> None:
    async def story() -> None:
        desk, deaf = made_desk(), Consumer(1_000)
        desk.join(deaf)
        large = Record(0, 0, None, b"x" * (READY_BYTES_MAX // 2))
        desk._hand([Delivered(0, offset, 1, large) for offset in range(2)], monotonic() + 30)
        assert (len(deaf.held), deaf.room, desk._reserve()) == (2, 0, 0)
        deaf.take(1)
        assert deaf.room == 998

    asyncio.run(story())


def test_messages_are_shared_out_so_that_the_least_room_is_the_most() -> None:
    rooms = {Consumer(5): 3, Consumer(3): 1, Consumer(2): 0, Consumer(0): 0}
    assert dict(shares(rooms, 4)) == {one: count for one, count in rooms.items() if count}
    assert sum(count for _, count in shares(rooms, 99)) == 10
    assert shares([], 4) == []


def test_neighbours_go_to_one_client() -> None:
    async def story() -> None:
        desk, one, other = made_desk(), Consumer(10), Consumer(10)
        desk.join(one)
        desk.join(other)
        arrive(desk, 8)
        assert [list(c.held) for c in (one, other)] == [
            [(0, 0), (0, 1), (0, 2), (0, 3)],
            [(0, 4), (0, 5), (0, 6), (0, 7)],
        ]

    asyncio.run(story())
