"""Tells the brokers what became of messages, in the name of whoever holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from time import monotonic
from typing import Any, Final, NamedTuple

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
_OUTSIDE_OF_SESSIONS: Final = 0


class Verdict(NamedTuple):
    """What became of messages."""

    kind: AcknowledgeType
    delay_ms: int = 0
    reason: str | None = None
    is_undelivered: bool = False


ACCEPT: Final = Verdict(AcknowledgeType.ACCEPT)
RELEASE: Final = Verdict(AcknowledgeType.RELEASE)
UNDELIVERED: Final = Verdict(AcknowledgeType.RELEASE, is_undelivered=True)


class _Said(NamedTuple):
    """What a leader said: stored or refused for good, those of them not held, and who knows."""

    done: Set[MessageId] = frozenset()
    not_held: Set[MessageId] = frozenset()
    doubted: Set[MessageId] = frozenset()


class Acknowledging:
    """Acknowledges at the leaders of partitions."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    async def settle(
        self, group: str, topic: Topic, ids: Sequence[MessageId], verdict: Verdict, deadline: float
    ) -> set[MessageId]:
        """Say it of all these messages; those that are not held under their id.

        Saying it again is safe, so it is said until a leader has stored it or the time is up.
        """
        left = set(ids)
        refused: set[MessageId] = set()
        doubted: set[MessageId] = set()
        while True:
            works = [
                self._ask(broker, group, topic, some, verdict)
                for (broker, _), some in self._by_leader(topic, left).items()
            ]
            for said in await asyncio.gather(*works):
                left -= said.done
                refused |= said.not_held
                doubted |= said.doubted
            if not left:
                if refused & doubted:
                    # Whether our own word of before settled them, nobody can tell any more.
                    raise NotSettled(f"{len(refused & doubted)} may be settled or not held")
                return refused
            if monotonic() + PAUSE_S >= deadline:
                raise NotSettled(f"{len(left)} acknowledgements may be missing; send them again")
            await asyncio.sleep(PAUSE_S)
            await self._topology.refresh()

    def _by_leader(
        self, topic: Topic, ids: Iterable[MessageId]
    ) -> Mapping[tuple[Broker, str], list[MessageId]]:
        found: dict[tuple[Broker, str], list[MessageId]] = {}
        for one in ids:
            broker = self._topology.owner(topic.name, one.partition)
            if one.partition >= len(topic.leaders):
                raise NotFound(f"topic {topic.name} has no partition {one.partition}")
            if broker is not None:
                found.setdefault((broker, one.member), []).append(one)
        return found

    async def _ask(
        self,
        broker: Broker,
        group: str,
        topic: Topic,
        ids: list[MessageId],
        verdict: Verdict,
    ) -> _Said:
        member = ids[0].member
        offsets: dict[int, list[int]] = {}
        for one in sorted(ids):
            offsets.setdefault(one.partition, []).append(one.offset)
        parts = [
            AcknowledgePartition(
                partition_index=partition, acknowledgement_batches=_batches(some, verdict)
            )
            for partition, some in offsets.items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=_OUTSIDE_OF_SESSIONS,
            topics=[AcknowledgeTopic(topic_id=topic.id, partitions=parts)],
        )
        try:
            answer = await broker.ask(ApiKey.SHARE_ACKNOWLEDGE, VERSION, request, 10.0)
        except BrokerAway as away:
            return _Said(doubted=set(ids) if away.in_doubt else set())
        return _outcome(answer, member, offsets)


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


def _outcome(answer: Any, member: str, offsets: Mapping[int, list[int]]) -> _Said:
    if answer.error_code != ErrorCode.NONE:
        if answer.error_code in RETRIABLE:
            return _Said()
        raise refusal(answer.error_code, answer.error_message)
    done: set[MessageId] = set()
    refused: set[MessageId] = set()
    doubted: set[MessageId] = set()
    for told in answer.responses:
        for part in told.partitions:
            some = offsets.get(part.partition_index, [])
            named = {MessageId(part.partition_index, offset, member) for offset in some}
            if part.error_code == ErrorCode.INVALID_RECORD_STATE:
                not_held = set(part.not_held) or set(some)
                refused |= {one for one in named if one.offset in not_held}
            elif part.error_code in RETRIABLE or part.error_code in _MOVED:
                # A leader may be deposed after it stored what it was told.
                doubted |= named
                continue
            elif part.error_code != ErrorCode.NONE:
                raise refusal(part.error_code, part.error_message)
            done |= named
    return _Said(done, refused, doubted)


_MOVED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.FENCED_STATE_EPOCH})
