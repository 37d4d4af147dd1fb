"""Carries batches to a broker: those that are ready together go in one Produce request."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from nexus.proxy.broker import Broker
from nexus.proxy.errors import BrokerAway
from nexus.wire.apis import ApiKey
from nexus.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

PRODUCE_VERSION: Final = 9
REQUEST_BYTES_MAX: Final = 8 << 20
ACKS_NONE: Final = 0


class Sent(NamedTuple):
    """A batch on its way to a partition."""

    topic: str
    partition: int
    batch: bytearray
    answer: asyncio.Future[PartitionProduceResponse]


class Courier:
    """All batches of one level of acknowledgement for one broker."""

    def __init__(self, broker: Broker, acks: int, timeout_s: float) -> None:
        self._broker = broker
        self._acks = acks
        self._timeout_s = timeout_s
        self._ready: list[Sent] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, topic: str, partition: int, batch: bytearray) -> PartitionProduceResponse:
        """What the broker says of a batch; BrokerAway where it says nothing."""
        loop = asyncio.get_running_loop()
        sent = Sent(topic, partition, batch, loop.create_future())
        if not self._ready:
            loop.call_soon(self._leave)
        self._ready.append(sent)
        return await sent.answer

    def _leave(self) -> None:
        ready, self._ready = self._ready, []
        while ready:
            load, ready = _one_request(ready)
            task = asyncio.create_task(self._carry(load))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, load: list[Sent]) -> None:
        try:
            said = await self._ask(_request(load, self._acks, self._timeout_s))
        except BrokerAway as error:
            for sent in load:
                if not sent.answer.done():
                    sent.answer.set_exception(error)
            return
        for sent in load:
            answer = said.get((sent.topic, sent.partition))
            if sent.answer.done():
                continue
            if answer is None:
                sent.answer.set_exception(BrokerAway("a batch has no answer", in_doubt=True))
            else:
                sent.answer.set_result(answer)

    async def _ask(self, request: ProduceRequest) -> dict[tuple[str, int], Any]:
        if self._acks == ACKS_NONE:
            (await self._broker.link()).tell(ApiKey.PRODUCE, PRODUCE_VERSION, request)
            return {
                (topic.name, part.index): PartitionProduceResponse(index=part.index, base_offset=-1)
                for topic in request.topic_data
                for part in topic.partition_data
            }
        answer = await self._broker.ask(ApiKey.PRODUCE, PRODUCE_VERSION, request, self._timeout_s)
        return {
            (topic.name, part.index): part
            for topic in answer.responses
            for part in topic.partition_responses
        }


def _one_request(ready: list[Sent]) -> tuple[list[Sent], list[Sent]]:
    """What fits one request, each partition once; and what is left for the next."""
    load: dict[tuple[str, int], Sent] = {}
    left = []
    size = 0
    for sent in ready:
        place = (sent.topic, sent.partition)
        if place in load or (load and size + len(sent.batch) > REQUEST_BYTES_MAX):
            left.append(sent)
        else:
            load[place] = sent
            size += len(sent.batch)
    return list(load.values()), left


def _request(load: list[Sent], acks: int, timeout_s: float) -> ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for sent in load:
        data = PartitionProduceData(index=sent.partition, records=memoryview(sent.batch))
        topics.setdefault(sent.topic, []).append(data)
    return ProduceRequest(
        acks=acks,
        timeout_ms=int(timeout_s * 1000),
        topic_data=[
            TopicProduceData(name=name, partition_data=data) for name, data in topics.items()
        ],
    )
