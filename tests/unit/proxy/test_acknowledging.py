"""Acknowledging: what clients say at the same time goes to a broker in one request."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from nexus.proxy.errors import BrokerAway
from nexus.proxy.sharing.acknowledging import ACCEPT, Acknowledging
from nexus.proxy.sharing.ids import MessageId
from nexus.proxy.topology import Topic, Topology
from nexus.web.problems import NotFound
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

MEMBER = "0" * 32
TOPIC = Topic("t", UUID(int=1), (1, 1), ((1,), (1,)))


class SlowBroker:
    """Answers when it is told to; says of some messages that nobody holds them."""

    def __init__(self, not_held: set[int]) -> None:
        self.heard: list[dict[int, list[int]]] = []
        self.may_answer = asyncio.Event()
        self.is_away = False
        self._not_held = not_held

    async def ask(self, key: object, version: int, request: Any, timeout_s: float) -> Any:
        said = {
            part.partition_index: [
                offset
                for run in part.acknowledgement_batches
                for offset in range(run.first_offset, run.last_offset + 1)
            ]
            for part in request.topics[0].partitions
        }
        self.heard.append(said)
        await self.may_answer.wait()
        if self.is_away:
            self.is_away = False
            raise BrokerAway("gone")
        parts = [self._answer(partition, offsets) for partition, offsets in said.items()]
        topic = ShareAcknowledgeTopicResponse(topic_id=TOPIC.id, partitions=parts)
        return ShareAcknowledgeResponse(responses=[topic])

    def _answer(self, partition: int, offsets: list[int]) -> PartitionData:
        refused = sorted(self._not_held.intersection(offsets))
        code = ErrorCode.INVALID_RECORD_STATE if refused else ErrorCode.NONE
        return PartitionData(partition_index=partition, error_code=code, not_held=refused)


class OneBroker(Topology):
    """Knows one broker, which leads everything."""

    def __init__(self, broker: SlowBroker) -> None:
        super().__init__((("127.0.0.1", 1),), 1.0)
        self.topics = {TOPIC.name: TOPIC}
        self.brokers = {1: broker}  # type: ignore[dict-item]  # as much of one as is needed

    async def refresh(self) -> None:
        """Nothing moves."""


def ids(*offsets: int, partition: int = 0) -> list[MessageId]:
    return [MessageId(partition, offset, MEMBER) for offset in offsets]


async def all_wait() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_said_while_the_broker_listens_goes_with_the_next_request() -> None:
    async def story() -> None:
        broker = SlowBroker(not_held={7})
        acknowledging = Acknowledging(OneBroker(broker))

        def say(*offsets: int) -> asyncio.Task[set[MessageId]]:
            return asyncio.create_task(
                acknowledging.settle("g", TOPIC, ids(*offsets), ACCEPT, float("inf"))
            )

        first = say(1, 2)
        await all_wait()
        others = [say(3), say(7, 8), say(5), say(4)]
        await all_wait()
        others[2].cancel()  # who gives up takes nothing from the others
        broker.may_answer.set()
        assert await first == set()
        assert await others[0] == set()
        assert await others[1] == set(ids(7))
        assert await others[3] == set()
        assert broker.heard == [{0: [1, 2]}, {0: [3, 4, 5, 7, 8]}]
        assert acknowledging._lines == {}

    asyncio.run(story())


def test_what_a_broker_did_not_answer_is_said_again() -> None:
    async def story() -> None:
        broker = SlowBroker(not_held=set())
        broker.is_away = True
        broker.may_answer.set()
        acknowledging = Acknowledging(OneBroker(broker))
        said = [*ids(1, 2), *ids(9, partition=1)]
        assert await acknowledging.settle("g", TOPIC, said, ACCEPT, float("inf")) == set()
        assert broker.heard == [{0: [1, 2], 1: [9]}] * 2

    asyncio.run(story())


def test_a_partition_that_is_not_there_is_named() -> None:
    async def story() -> None:
        acknowledging = Acknowledging(OneBroker(SlowBroker(set())))
        with pytest.raises(NotFound, match="partition 2"):
            await acknowledging.settle("g", TOPIC, ids(1, partition=2), ACCEPT, float("inf"))

    asyncio.run(story())
