"""Members of consumer groups, each in a thread of its own, for three clients behind one face.

A member joins when it is made, keeps polling, remembers what it saw and which partitions it holds,
commits what it saw when it leaves, and leaves by `close`.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as AioSticky,
)
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from support.confluent import checked
from support.waiting import wait_until

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 150
CLOSE_SECONDS = 15.0
LEAVE_SECONDS = 8.0

Seen = tuple[int, int, bytes | None]


class Member(ABC):
    """One consumer of a group; `seen` holds (partition, offset, value) in the order it arrived."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, assignor: str, instance: str | None = None
    ) -> None:
        self.topic, self.group, self.assignor, self.instance = topic, group, assignor, instance
        self.bootstrap = bootstrap
        self.seen: list[Seen] = []
        self.partitions: frozenset[int] = frozenset()
        self.failure: BaseException | None = None
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"member-{group}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group; what went wrong in the thread is raised here."""
        self._leave.set()
        self._thread.join(CLOSE_SECONDS)
        assert not self._thread.is_alive(), f"{type(self).__name__} did not close"
        if self.failure is not None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as failure:  # noqa: BLE001 - raised again by close()
            self.failure = failure

    @abstractmethod
    def _run(self) -> None:
        """Join, poll until told to leave, commit, leave."""

    def _note(self, records: Iterable[Any]) -> None:
        self.seen += [(record.partition, record.offset, record.value) for record in records]


class ConfluentMember(Member):
    """librdkafka's consumer."""

    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "partition.assignment.strategy": self.assignor,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "fetch.wait.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if self.instance:
            settings["group.instance.id"] = self.instance
        consumer = Consumer(settings)
        try:
            consumer.subscribe([self.topic])
            while not self._leave.is_set():
                for message in consumer.consume(500, timeout=0.05):
                    checked(message)
                    where = message.partition(), message.offset(), message.value()
                    self.seen.append(where)  # type: ignore[arg-type]
                self.partitions = frozenset(p.partition for p in consumer.assignment())
        finally:
            consumer.close()
            self.partitions = frozenset()


class KafkaPythonMember(Member):
    """kafka-python's consumer."""

    ASSIGNORS = {  # noqa: RUF012 - a constant
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def _run(self) -> None:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            partition_assignment_strategy=[self.ASSIGNORS[self.assignor]],
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
            metadata_max_age_ms=1000,
        )
        try:
            while not self._leave.is_set():
                # A join that ends just when poll's time is over is lost to kafka-python 3.0.12:
                # it has its assignment and never takes it up. So poll longer than a join takes.
                for records in consumer.poll(timeout_ms=400).values():
                    self._note(records)
                self.partitions = frozenset(p.partition for p in consumer.assignment())
        finally:
            consumer.close()
            self.partitions = frozenset()


class AiokafkaMember(Member):
    """aiokafka's consumer, on an event loop in the member's thread."""

    ASSIGNORS = {  # noqa: RUF012 - a constant
        "range": AioRange,
        "roundrobin": AioRoundRobin,
        "sticky": AioSticky,
    }

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            partition_assignment_strategy=[self.ASSIGNORS[self.assignor]],
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            fetch_max_wait_ms=50,
            metadata_max_age_ms=1000,
        )
        await consumer.start()
        try:
            while not self._leave.is_set():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    self._note(records)
                self.partitions = frozenset(p.partition for p in consumer.assignment())
        finally:
            await _leave(consumer)
            self.partitions = frozenset()


async def _leave(consumer: AIOKafkaConsumer) -> None:
    """Commit and stop. A coordinator that goes just now must not keep anybody for ever.

    Once it is closing, aiokafka 0.14 looks for no other coordinator, and tries its last automatic
    commit again and again without one. So it commits before that, and is left alone after a while.
    """
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await consumer.commit()
            await consumer.stop()


MEMBERS: dict[str, type[Member]] = {
    "confluent": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}


def wait_shared(members: list[Member], partitions: int, *, within: float = 20.0) -> None:
    """Until the members hold every partition between them, each exactly once, and none is idle."""

    def shared() -> bool:
        for member in members:
            if member.failure is not None:
                raise member.failure
        held = sorted(p for member in members for p in member.partitions)
        busy = all(member.partitions for member in members)
        return held == list(range(partitions)) and busy

    held = f"every partition held once by {len(members)} members"
    wait_until(shared, within=within, what=held)
