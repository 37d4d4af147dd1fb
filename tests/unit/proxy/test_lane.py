"""The way into a partition: gathered, in order, written once however often it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from nexus.proxy.errors import BodyTooLarge, BrokerAway, FateUnknown, NotWritten
from nexus.proxy.lane import Lane, OwnerDown, Place
from nexus.proxy.messages import Message, Parcel
from nexus.wire.batch import BatchHeader, read_header
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.produce import PartitionProduceResponse
from nexus.wire.records import decode_records

PLACE = Place("t", 0, -1)
Answer = Callable[[bytearray], PartitionProduceResponse]


def appended(base_offset: int) -> Answer:
    return lambda _: PartitionProduceResponse(index=0, base_offset=base_offset)


def refused(code: ErrorCode) -> Answer:
    return lambda _: PartitionProduceResponse(index=0, error_code=code, base_offset=-1)


def away(*, in_doubt: bool) -> Answer:
    def raise_it(_: bytearray) -> PartitionProduceResponse:
        raise BrokerAway("gone", in_doubt=in_doubt)

    return raise_it


class Script:
    """A carrier that answers as it is told, and then appends."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.sent: list[bytearray] = []
        self.lost = False
        self._end = 0
        self._ids = 0

    async def send(self, place: Place, batch: bytearray) -> PartitionProduceResponse:
        self.sent.append(batch)
        await asyncio.sleep(0)
        if self._answers:
            return self._answers.pop(0)(batch)
        base, self._end = self._end, self._end + read_header(batch).count
        return PartitionProduceResponse(index=0, base_offset=base)

    async def look_again(self, place: Place) -> None: ...
    def is_lost(self, place: Place) -> bool:
        return self.lost

    def left(self, place: Place) -> None: ...

    async def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def headers(self) -> list[BatchHeader]:
        return [read_header(batch) for batch in self.sent]


def parcel(*values: bytes, within: float = 30.0) -> Parcel:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    return Parcel([Message(value) for value in values], monotonic() + within, future, 100)


def run(story: Any) -> Any:
    return asyncio.run(story)


def test_what_comes_together_travels_together() -> None:
    async def story() -> None:
        script = Script()
        lane = Lane(PLACE, script, script.new_id)
        parcels = [parcel(b"a"), parcel(b"b", b"c"), parcel(b"d")]
        for one in parcels:
            lane.put(one)
        assert [await one.base_offset for one in parcels] == [0, 1, 3]
        (batch,) = script.sent
        values = [record.value for record in decode_records(memoryview(batch))]
        assert values == [b"a", b"b", b"c", b"d"]

    run(story())


def test_sequences_go_on_from_batch_to_batch() -> None:
    async def story() -> None:
        script = Script()
        lane = Lane(PLACE, script, script.new_id)
        for _ in range(3):
            one = parcel(b"a", b"b")
            lane.put(one)
            await one.base_offset
        assert [(h.producer_id, h.base_sequence) for h in script.headers()] == [
            (1, 0),
            (1, 2),
            (1, 4),
        ]

    run(story())


def test_a_batch_in_doubt_is_sent_again_as_it_was() -> None:
    async def story() -> None:
        script = Script(away(in_doubt=True), refused(ErrorCode.NOT_LEADER_OR_FOLLOWER), appended(7))
        lane = Lane(PLACE, script, script.new_id)
        one = parcel(b"a")
        lane.put(one)
        assert await one.base_offset == 7
        assert script.sent[0] == script.sent[1] == script.sent[2]

    run(story())


def test_a_batch_that_stays_in_doubt_says_so_and_its_producer_is_not_used_again() -> None:
    async def story() -> None:
        script = Script(away(in_doubt=True), *[away(in_doubt=False)] * 100)
        lane = Lane(PLACE, script, script.new_id)
        one = parcel(b"a", within=0.1)
        lane.put(one)
        with pytest.raises(FateUnknown):
            await one.base_offset
        script._answers.clear()
        two = parcel(b"b")
        lane.put(two)
        await two.base_offset
        assert script.headers()[-1].producer_id == 2

    run(story())


def test_what_was_never_sent_is_certainly_not_written() -> None:
    async def story() -> None:
        script = Script(*[away(in_doubt=False)] * 100)
        lane = Lane(PLACE, script, script.new_id)
        one = parcel(b"a", within=0.1)
        lane.put(one)
        with pytest.raises(NotWritten):
            await one.base_offset

    run(story())


def test_a_forgotten_producer_is_replaced_where_nothing_is_in_doubt() -> None:
    async def story() -> None:
        script = Script(refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), appended(3))
        lane = Lane(PLACE, script, script.new_id)
        one = parcel(b"a")
        lane.put(one)
        assert await one.base_offset == 3
        assert [h.producer_id for h in script.headers()] == [1, 2]

    run(story())


def test_one_bad_request_costs_those_beside_it_nothing() -> None:
    async def story() -> None:
        def too_large(batch: bytearray) -> PartitionProduceResponse:
            values = [record.value for record in decode_records(memoryview(batch))]
            if b"bad" in values:
                return refused(ErrorCode.MESSAGE_TOO_LARGE)(batch)
            return appended(len(script.sent))(batch)

        script = Script(*[too_large] * 4)
        lane = Lane(PLACE, script, script.new_id)
        good, bad, also_good = parcel(b"good"), parcel(b"bad"), parcel(b"fine")
        for one in (good, bad, also_good):
            lane.put(one)
        assert await good.base_offset > 0
        with pytest.raises(BodyTooLarge):
            await bad.base_offset
        assert await also_good.base_offset > 0

    run(story())


def test_an_owner_that_nobody_replaces_is_told_of_at_once() -> None:
    async def story() -> None:
        script = Script(away(in_doubt=False))
        script.lost = True
        lane = Lane(PLACE, script, script.new_id)
        one = parcel(b"a")
        lane.put(one)
        with pytest.raises(OwnerDown):
            await one.base_offset

    run(story())


def test_who_gave_up_waiting_is_not_sent() -> None:
    async def story() -> None:
        script = Script()
        lane = Lane(PLACE, script, script.new_id)
        gone, here = parcel(b"gone"), parcel(b"here")
        gone.is_given_up = True
        lane.put(gone)
        lane.put(here)
        assert await here.base_offset == 0

    run(story())
