"""Tells the brokers what became of messages, in the name of whoever holds them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from nexus.proxy.broker import Broker
from nexus.proxy.errors import BrokerAway, NotSettled
from nexus.proxy.refusals import refusal
from nexus.proxy.sharing.ids import MessageId
from nexus.proxy.topology import Topic, Topology
from nexus.web.problems import NotFound
from nexus.wire.apis import ApiKey
from nexus.wire.errors import RETRIABLE, ErrorCode
from nexus.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from nexus.wire.messages.share_fetch import AcknowledgementBatch, AcknowledgeType

VERSION: Final = 2
PAUSE_S: Final = 0.05
ROUND_MOST: Final = 50_000  # about so many messages in one request
PATIENCE: Final = 0.125  # of the time that the last request took
PATIENCE_MOST_S: Final = 0.002
_OUTSIDE_OF_SESSIONS: Final = 0

Parts = dict[int, list[int]]  # offsets by partition
Told = Mapping[int, set[int]]  # by partition where it is settled: those that are not held


class Verdict(NamedTuple):
    """What became of messages."""

    kind: AcknowledgeType
    delay_ms: int = 0
    reason: str | None = None
    is_undelivered: bool = False


ACCEPT: Final = Verdict(AcknowledgeType.ACCEPT)
RELEASE: Final = Verdict(AcknowledgeType.RELEASE)
UNDELIVERED: Final = Verdict(AcknowledgeType.RELEASE, is_undelivered=True)


class Acknowledging:
    """Acknowledges at the leaders of partitions."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._lines: dict[_LineKey, Line] = {}

    async def settle(
        self, group: str, topic: Topic, ids: Iterable[MessageId], verdict: Verdict, deadline: float
    ) -> set[MessageId]:
        """Say it of all these messages; those that are not held under their id.

        Saying it again is safe, so it is said until a leader has stored it or the time is up.
        """
        left = _by_holder(topic, ids)
        refused: set[MessageId] = set()
        doubted: set[tuple[str, int]] = set()  # said there before, and not answered
        while True:
            asked = list(self._by_leader(topic, left).items())
            works = [
                self._say(_LineKey(broker, group, topic.id, member, verdict), parts)
                for (broker, member), parts in asked
            ]
            for ((_, member), parts), told in zip(asked, await asyncio.gather(*works), strict=True):
                doubted |= {(member, partition) for partition in parts.keys() - told.keys()}
                for partition, not_held in told.items():
                    own = not_held.intersection(parts.get(partition, ()))
                    refused |= {MessageId(partition, offset, member) for offset in own}
                    left.pop((member, partition), None)
            if not left:
                if any((one.member, one.partition) in doubted for one in refused):
                    # Whether our own word of before settled them, nobody can tell any more.
                    raise NotSettled("some are settled, or were not held any more")
                return refused
            if monotonic() + PAUSE_S >= deadline:
                count = sum(map(len, left.values()))
                raise NotSettled(f"{count} acknowledgements may be missing; send them again")
            await asyncio.sleep(PAUSE_S)
            await self._topology.refresh()

    def _by_leader(
        self, topic: Topic, held: Mapping[tuple[str, int], list[int]]
    ) -> Mapping[tuple[Broker, str], Parts]:
        found: dict[tuple[Broker, str], Parts] = {}
        for (member, partition), offsets in held.items():
            broker = self._topology.owner(topic.name, partition)
            if broker is not None:
                found.setdefault((broker, member), {})[partition] = offsets
        return found

    async def _say(self, key: _LineKey, parts: Parts) -> Told:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key, partial(self._lines.pop, key, None))
        return await line.say(parts)


class _LineKey(NamedTuple):
    """To whom, of whose messages, and what."""

    broker: Broker
    group: str
    topic_id: UUID
    member: str
    verdict: Verdict


class _Round:
    """What several clients say at once."""

    def __init__(self) -> None:
        self.parts: dict[int, set[int]] = {}
        self.count = 0
        self.told: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    def add(self, parts: Parts) -> None:
        for partition, offsets in parts.items():
            self.parts.setdefault(partition, set()).update(offsets)
            self.count += len(offsets)


class Line:
    """One request is on its way at a time; what is to be said meanwhile goes with the next."""

    def __init__(self, key: _LineKey, on_idle: Callable[[], object]) -> None:
        self._key = key
        self._on_idle = on_idle
        self._rounds: deque[_Round] = deque()
        self._task: asyncio.Task[None] | None = None

    async def say(self, parts: Parts) -> Told:
        """What the broker says of it; of nothing, if it does not answer."""
        if not self._rounds or self._rounds[-1].count > ROUND_MOST:
            self._rounds.append(_Round())
        this = self._rounds[-1]
        this.add(parts)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        # Others wait for the same answer: who gives up must not take it from them.
        return await asyncio.shield(this.told)

    async def _run(self) -> None:
        took_s = 0.0
        while self._rounds:
            # Those who just had an answer may have more to say: then all go together, where else
            # they would go in two rounds that wait for each other.
            await asyncio.sleep(min(took_s * PATIENCE, PATIENCE_MOST_S))
            this, began = self._rounds.popleft(), monotonic()
            try:
                told = await self._ask(this.parts)
            except BrokerAway:
                this.told.set_result({})
            except Exception as error:  # noqa: BLE001 - each of those who wait is told
                this.told.set_exception(error)
                this.told.exception()  # they may be gone; that is no fault
            else:
                this.told.set_result(told)
            took_s = monotonic() - began
        self._task = None
        self._on_idle()

    async def _ask(self, parts: Mapping[int, set[int]]) -> Told:
        broker, group, topic_id, member, verdict = self._key
        said = [
            AcknowledgePartition(
                partition_index=partition,
                acknowledgement_batches=_batches(sorted(offsets), verdict),
            )
            for partition, offsets in parts.items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=_OUTSIDE_OF_SESSIONS,
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=said)],
        )
        return _told(await broker.ask(ApiKey.SHARE_ACKNOWLEDGE, VERSION, request, 10.0), parts)


def _by_holder(topic: Topic, ids: Iterable[MessageId]) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for partition, offset, member in ids:
        held = found.get((member, partition))
        if held is None:
            if partition >= len(topic.leaders):
                raise NotFound(f"topic {topic.name} has no partition {partition}")
            held = found[member, partition] = []
        held.append(offset)
    return found


def _batches(offsets: Sequence[int], verdict: Verdict) -> list[AcknowledgementBatch]:
    """Neighbours together."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return [
        AcknowledgementBatch(
            first_offset=first,
            last_offset=last,
            acknowledge_types=[int(verdict.kind)],
            delay_ms=verdict.delay_ms,
            reason=verdict.reason,
            is_undelivered=verdict.is_undelivered,
        )
        for first, last in runs
    ]


def _told(answer: Any, parts: Mapping[int, set[int]]) -> Told:
    if answer.error_code != ErrorCode.NONE:
        if answer.error_code in RETRIABLE:
            return {}
        raise refusal(answer.error_code, answer.error_message)
    told: dict[int, set[int]] = {}
    for part in (part for topic in answer.responses for part in topic.partitions):
        if part.error_code == ErrorCode.INVALID_RECORD_STATE:
            told[part.partition_index] = set(part.not_held) or parts[part.partition_index]
        elif part.error_code == ErrorCode.NONE:
            told[part.partition_index] = set()
        elif part.error_code not in RETRIABLE and part.error_code not in _MOVED:
            raise refusal(part.error_code, part.error_message)
    return told


_MOVED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.FENCED_STATE_EPOCH})
