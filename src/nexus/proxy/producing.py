"""Writes messages: chooses partitions, gathers what comes together, and says where it went."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from time import monotonic
from typing import Any, Final

from nexus.proxy.courier import Courier
from nexus.proxy.errors import (
    BrokerAway,
    FateUnknown,
    NoBroker,
    NotWritten,
    OtherBody,
    PartlyWritten,
)
from nexus.proxy.lane import Identity, Lane, OwnerDown, Place, encode
from nexus.proxy.messages import Message, Parcel, Written, chunks
from nexus.proxy.refusals import STALE_PRODUCER, refusal
from nexus.proxy.routing import Place as Chosen
from nexus.proxy.routing import Routing
from nexus.proxy.topics import Topics
from nexus.proxy.topology import Topic, Topology
from nexus.queue.partitioners import murmur2
from nexus.web.problems import BadParameter, NotFound, Problem
from nexus.wire.apis import ApiKey
from nexus.wire.errors import RETRIABLE, ErrorCode
from nexus.wire.messages.init_producer_id import InitProducerIdRequest
from nexus.wire.messages.produce import PartitionProduceResponse

INIT_VERSION: Final = 4
ASK_SECONDS: Final = 5.0
HOME_HEADER: Final = "home-partition"
PAUSE_S: Final = 0.1
# Brokers hand out ids from 0 on; those that are made from an Idempotency-Key begin here.
DERIVED_IDS: Final = 1 << 62
Lots = list[Coroutine[Any, Any, list[Written]]]


class Producing:
    """All that is on its way to the brokers."""

    def __init__(self, topology: Topology, topics: Topics, request_timeout_s: float) -> None:
        self._topology = topology
        self._topics = topics
        self._routing = Routing(topology)
        self._timeout_s = request_timeout_s
        self._lanes: dict[Place, Lane] = {}
        self._couriers: dict[tuple[int, int], Courier] = {}

    async def write(
        self,
        topic_name: str,
        messages: Sequence[Message],
        acks: int,
        deadline: float,
        idempotency_key: str | None = None,
    ) -> list[Written]:
        """Where each message went, once it is as safe as `acks` asks."""
        topic = await self._topics.find_or_make(topic_name, deadline)
        if not self._topology.any_up:
            raise NoBroker("no broker answers; nothing was written")
        if idempotency_key is not None:
            return await self._write_once(topic, messages, acks, deadline, idempotency_key)
        placed = self._placed(topic, messages)
        if len(placed) == 1:
            (chosen,) = placed
            return await self._write_to(topic, chosen, messages, acks, deadline)
        lots = [
            self._write_to(topic, chosen, [messages[n] for n in numbers], acks, deadline)
            for chosen, numbers in placed.items()
        ]
        return await _all_lots(placed, lots, len(messages))

    def _placed(self, topic: Topic, messages: Sequence[Message]) -> dict[Chosen, list[int]]:
        """Which messages go where; what may go anywhere stays together."""
        chosen: dict[tuple[bytes | None, int | None], list[int]] = {}
        placed: dict[Chosen, list[int]] = {}
        for number, message in enumerate(messages):
            wish = (message.key, message.partition)
            numbers = chosen.get(wish)
            if numbers is None:
                numbers = placed.setdefault(self._choose(topic, message), [])
                chosen[wish] = numbers
            numbers.append(number)
        return placed

    def _choose(self, topic: Topic, message: Message) -> Chosen:
        partitions = len(topic.leaders)
        if message.partition is not None:
            if not 0 <= message.partition < partitions:
                raise BadParameter.of("partition", f"expected 0 to {partitions - 1}")
            return Chosen(message.partition)
        if message.key is not None:
            return self._routing.by_key(topic.name, message.key, partitions, may_move=True)
        return self._routing.in_turn(topic.name, partitions)

    async def _write_to(
        self,
        topic: Topic,
        chosen: Chosen,
        messages: Sequence[Message],
        acks: int,
        deadline: float,
    ) -> list[Written]:
        if chosen.home is not None:
            away = (HOME_HEADER, str(chosen.home).encode())
            messages = [m._replace(headers=(*m.headers, away)) for m in messages]
        place = Place(topic.name, chosen.partition, acks)
        parcels = [self._parcel(lot, size, deadline) for lot, size in chunks(messages)]
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = Lane(place, self, self._new_id)
        for parcel in parcels:
            lane.put(parcel)
        try:
            bases = [await self._settled(parcel) for parcel in parcels]
        except OwnerDown:
            return await self._elsewhere(topic, messages, acks, deadline)
        return [
            one
            for base, parcel in zip(bases, parcels, strict=True)
            for one in _written(chosen, base, len(parcel.messages))
        ]

    async def _elsewhere(
        self, topic: Topic, messages: Sequence[Message], acks: int, deadline: float
    ) -> list[Written]:
        """The owner is down and nothing was sent: choose again, or wait for it."""
        plain = [
            m._replace(headers=tuple(h for h in m.headers if h[0] != HOME_HEADER)) for m in messages
        ]
        if monotonic() + PAUSE_S >= deadline:
            raise NotWritten("the partition's owner is down")
        if plain[0].partition is not None or not self._topology.any_up:
            await asyncio.sleep(PAUSE_S)
        # Those that go on together were chosen for one partition: their keys may now part.
        written = []
        for message in plain:
            chosen = self._choose(topic, message)
            written += await self._write_to(topic, chosen, [message], acks, deadline)
        return written

    def _parcel(self, messages: list[Message], size: int, deadline: float) -> Parcel:
        future = asyncio.get_running_loop().create_future()
        return Parcel(messages, deadline, future, size)

    async def _settled(self, parcel: Parcel) -> int:
        try:
            async with asyncio.timeout(max(parcel.deadline - monotonic(), 0)):
                return await parcel.base_offset
        except TimeoutError:
            parcel.is_given_up = True
            if parcel.is_sent:
                raise FateUnknown("it was sent, but no answer came in time") from None
            raise NotWritten("it could not be sent in time") from None

    # At most once by a key --------------------------------------------------------------------

    async def _write_once(
        self, topic: Topic, messages: Sequence[Message], acks: int, deadline: float, key: str
    ) -> list[Written]:
        """Write in the name of a producer that is made from the key, to a partition that is too.

        Whoever sends the same again finds that the partition's leader has it.
        """
        if acks == 0:
            raise BadParameter.of(
                "acks", "0 gets no answer, so Idempotency-Key cannot work with it"
            )
        partitions = len(topic.leaders)
        lots: dict[Chosen, list[int]] = {}
        for number, message in enumerate(messages):
            partition = message.partition
            if partition is None:
                partition = murmur2(message.key or key.encode()) % partitions
            elif not 0 <= partition < partitions:
                raise BadParameter.of("partition", f"expected 0 to {partitions - 1}")
            lots.setdefault(Chosen(partition), []).append(number)
        sends = [
            self._write_lot(
                Place(topic.name, chosen.partition, acks),
                [messages[n] for n in numbers],
                deadline,
                key,
            )
            for chosen, numbers in lots.items()
        ]
        return await _all_lots(lots, sends, len(messages))

    async def _write_lot(
        self, place: Place, messages: list[Message], deadline: float, key: str
    ) -> list[Written]:
        written: list[Written] = []
        for number, (lot, _) in enumerate(chunks(messages)):
            batch = encode(lot, _derived(key, number, lot))
            base = await self._send_once(place, batch, deadline)
            written += [Written(place.partition, base + at) for at in range(len(lot))]
        return written

    async def _send_once(self, place: Place, batch: bytearray, deadline: float) -> int:
        in_doubt = False
        while True:
            try:
                answer = await self.send(place, batch)
            except BrokerAway as error:
                in_doubt |= error.in_doubt
            else:
                if answer.error_code == ErrorCode.NONE:
                    return answer.base_offset
                if answer.error_code in STALE_PRODUCER:
                    raise OtherBody("use a new key for other messages")
                if answer.error_code not in RETRIABLE:
                    raise refusal(answer.error_code, answer.error_message)
                in_doubt = True
            if monotonic() + PAUSE_S >= deadline:
                if in_doubt:
                    raise FateUnknown("send it again with the same Idempotency-Key: that is safe")
                raise NotWritten("no broker took it in time")
            await asyncio.sleep(PAUSE_S)
            await self.look_again(place)

    # For lanes --------------------------------------------------------------------------------

    async def send(self, place: Place, batch: bytearray) -> PartitionProduceResponse:
        broker = self._topology.owner(place.topic, place.partition)
        if broker is None:
            raise BrokerAway("the partition has no leader")
        which = (id(broker), place.acks)
        courier = self._couriers.get(which)
        if courier is None:
            if len(self._couriers) > 1_000:  # brokers come and go
                self._couriers.clear()
            courier = self._couriers[which] = Courier(broker, place.acks, self._timeout_s)
        return await courier.send(place.topic, place.partition, batch)

    async def look_again(self, place: Place) -> None:
        await self._topology.refresh()
        known = self._topology.topics.get(place.topic)
        if known is None or place.partition >= len(known.leaders):
            raise NotFound(f"there is no partition {place.partition} of topic {place.topic}")

    def is_lost(self, place: Place) -> bool:
        return self._topology.is_static and not self._topology.is_up(place.topic, place.partition)

    def left(self, place: Place) -> None:
        self._routing.turn(place.topic, place.partition)

    async def _new_id(self) -> int:
        request = InitProducerIdRequest(transaction_timeout_ms=60_000)
        for broker in self._topology.all_brokers():
            if not broker.is_up:
                continue
            try:
                answer = await broker.ask(
                    ApiKey.INIT_PRODUCER_ID, INIT_VERSION, request, ASK_SECONDS
                )
            except BrokerAway:
                continue
            if answer.error_code == ErrorCode.NONE:
                producer_id: int = answer.producer_id
                return producer_id
        raise NoBroker("no broker gives out a producer's id")


def _written(chosen: Chosen, base: int, count: int) -> Iterable[Written]:
    """Where messages went that were written one after the other."""
    offsets = range(base, base + count) if base >= 0 else repeat(-1, count)
    columns = (repeat(chosen.partition, count), offsets, repeat(chosen.home, count))
    return map(Written._make, zip(*columns, strict=True))


def _derived(key: str, number: int, lot: list[Message]) -> Identity:
    """A producer that exists for one lot of one key; its sequence tells what is in the lot."""
    name = sha256(f"{number}/{key}".encode()).digest()
    told = sha256()
    for message in lot:
        told.update(repr((message.key, message.value, message.headers)).encode())
    producer_id = DERIVED_IDS | int.from_bytes(name[:8], "big") >> 2
    return Identity(producer_id, int.from_bytes(told.digest()[:4], "big") >> 1)


async def _all_lots(lots: Mapping[Chosen, list[int]], writes: Lots, count: int) -> list[Written]:
    """Where each message went, in the order in which they came."""
    done = await asyncio.gather(*writes, return_exceptions=True)
    written: list[Written | None] = [None] * count
    failure: BaseException | None = None
    for numbers, lot in zip(lots.values(), done, strict=True):
        if isinstance(lot, BaseException):
            failure = failure or lot
            continue
        for number, one in zip(numbers, lot, strict=True):
            written[number] = one
    if failure is None:
        return [one for one in written if one is not None]
    if isinstance(failure, Problem) and any(written):
        raise PartlyWritten(failure, written)
    raise failure
