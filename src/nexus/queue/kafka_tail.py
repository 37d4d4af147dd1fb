"""The newest messages of a Kafka topic as they arrive, for whoever looks on.

It begins with what comes after it was opened, follows every partition, also those added later,
and never lags long: where it falls behind it goes to the end, and counts what it passed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from nexus.queue.errors import QueueError, TopicMissing
from nexus.queue.kafka_batch import received
from nexus.queue.kafka_client import consumer_of
from nexus.queue.kafka_offsets import offsets_of, partitions_of, trouble
from nexus.queue.port import Received
from nexus.queue.url import KafkaUrl

_BATCH: Final = 2000
_ASK_S: Final = 0.3
_OPEN_S: Final = 2.0
_SOON_S: Final = 0.5
_FOLLOWING: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "latest",
    "enable.partition.eof": False,
    "fetch.wait.max.ms": 250,
}


class KafkaTail:
    """For one thread at a time. While the queue is away nothing comes, and `problem` says why."""

    def __init__(
        self,
        url: KafkaUrl,
        *,
        client: Mapping[str, Any] | None = None,
        patience_s: float = 2.0,
        refresh_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.skipped = 0
        self.problem = ""
        self._clock = clock
        self._patience_s = patience_s
        self._refresh_s = refresh_s
        # Where each partition goes on, and where it ended when that was last looked at.
        self._at: dict[int, int] = {}
        self._marks: dict[int, int] = {}
        self._marked = clock()
        self._refreshed = clock()
        self._was_missing = False
        self._is_closed = False
        own = {**_FOLLOWING, "error_cb": self._on_error}
        self._consumer = consumer_of(url, client or {}, own)
        self._refresh(_OPEN_S)

    def positions(self) -> Mapping[int, int]:
        """Where each partition goes on."""
        return dict(self._at)

    def poll(self, timeout_s: float) -> Sequence[Received]:
        """What has come, of all partitions; waits for the first message only."""
        if self._is_closed:
            return ()
        if self._clock() - self._refreshed >= self._refresh_every():
            self._refresh(_ASK_S)
        if self._clock() - self._marked >= self._patience_s:
            self._catch_up()
        return self._taken(self._fetched(timeout_s))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close()

    def _refresh_every(self) -> float:
        return min(_SOON_S, self._refresh_s) if self.problem else self._refresh_s

    def _fetched(self, timeout_s: float) -> list[Message]:
        messages = self._consumer.consume(_BATCH, 0)
        if messages:
            return messages
        message = self._consumer.poll(timeout_s)
        return [] if message is None else [message]

    def _taken(self, messages: list[Message]) -> Sequence[Received]:
        if any(map(Message.error, messages)):
            for error in filter(None, map(Message.error, messages)):
                self.problem = str(trouble(self.url, error))
            messages = [message for message in messages if not message.error()]
        ours = received(messages)
        self._at.update({message.partition: message.offset + 1 for message in ours})
        return ours

    def _refresh(self, within_s: float) -> None:
        """Look which partitions there are, and follow those that are new."""
        self._refreshed = self._clock()
        try:
            known = partitions_of(self._consumer, self.url, within_s)
            self._follow([p for p in known if p not in self._at], within_s)
            self.problem = ""
        except QueueError as error:
            self.problem = str(error)
            self._was_missing = self._was_missing or isinstance(error, TopicMissing)

    def _follow(self, new: Sequence[int], within_s: float) -> None:
        if not new:
            return
        # What came into being while we looked on is new as a whole.
        when = OFFSET_BEGINNING if self._at or self._was_missing else OFFSET_END
        self._at |= offsets_of(self._consumer, self.url, new, when, within_s)
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self.url.topic, p, at) for p, at in self._at.items()])

    def _catch_up(self) -> None:
        """Leave out what is left of partitions that did not get as far as they ended last time."""
        behind = [p for p, mark in self._marks.items() if self._at[p] < mark]
        self._marked = self._clock()
        if behind:
            self._skip(behind)
        self._marks = {p: self._end_of(p) for p in self._at}

    def _skip(self, behind: Sequence[int]) -> None:
        try:
            ends = offsets_of(self._consumer, self.url, behind, OFFSET_END, _ASK_S)
        except QueueError as error:
            self.problem = str(error)
            return
        ahead = {p: end for p, end in ends.items() if end > self._at[p]}
        self.skipped += sum(end - self._at[p] for p, end in ahead.items())
        self._at |= ahead
        self._assign()

    def _end_of(self, partition: int) -> int:
        """Where the partition ended when something was last fetched from it."""
        try:
            place = TopicPartition(self.url.topic, partition)
            known = self._consumer.get_watermark_offsets(place, cached=True)
        except KafkaException:
            return -1
        return known[1] if known else -1

    def _on_error(self, error: KafkaError) -> None:
        self.problem = str(trouble(self.url, error))
