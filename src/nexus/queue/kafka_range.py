"""One range of a partition, read by one consumer: what is there, once, whole and in order.

Brokers may go and come back meanwhile. Only when nothing came for the whole time-out, or when
what is asked for is no more, does it give up.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from nexus.queue.errors import OffsetsGone, OffsetsMissing, QueueAway, QueueError
from nexus.queue.kafka_batch import KafkaBatch
from nexus.queue.kafka_client import HOPELESS
from nexus.queue.kafka_offsets import offsets_of, trouble
from nexus.queue.url import KafkaUrl

# A batch is what the client has at hand, at most; its own queue bounds the bytes.
_BATCH: Final = 4096
_POLL_S: Final = 0.2
_PAUSE_S: Final = 0.1
_ASK_S: Final = 2.0


class KafkaRange:
    """The messages of [start, end); `consumer` is for this range alone while it is read."""

    def __init__(
        self,
        consumer: Consumer,
        url: KafkaUrl,
        partition: int,
        start: int,
        end: int,
        *,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._url = url
        self._partition = partition
        self._at, self._end = start, end
        self._timeout_s = timeout_s
        self._clock = clock
        self._problem: QueueError | None = None

    def batches(self) -> Iterator[KafkaBatch]:
        """The messages; what the caller does between two batches takes none of the time."""
        if self._at < self._end:
            self._assign()
        heard = self._clock()
        while self._at < self._end:
            before = self._at
            for messages, error in _runs(self._fetched()):
                if wanted := self._within(messages):
                    yield KafkaBatch(wanted)
                if error is not None and not self._goes_on_after(error):
                    break
            if self._at > before:
                self._problem = None
                heard = self._clock()
            elif self._clock() - heard > self._timeout_s:
                raise self._silence()

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(self._url.topic, self._partition, self._at)])

    def _fetched(self) -> list[Message]:
        """What is at hand; where that is nothing, what comes in a little while."""
        count = min(_BATCH, self._end - self._at)
        messages = self._consumer.consume(count, 0)
        if messages:
            return messages
        first = self._consumer.poll(_POLL_S)
        if first is None or first.error() or count == 1:
            return [] if first is None else [first]
        return [first, *self._consumer.consume(count - 1, 0)]

    def _within(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of the range; the place to go on with is after them."""
        if not messages:
            return messages
        first, last = _offset(messages[0]), _offset(messages[-1])
        if first < self._at or last >= self._end:
            messages = messages[
                bisect_left(messages, self._at, key=_offset) : bisect_left(
                    messages, self._end, key=_offset
                )
            ]
        self._at = max(self._at, last + 1)
        return messages

    def _goes_on_after(self, message: Message) -> bool:
        """Deal with an error that came in place of a message: are those behind it good?"""
        error: Any = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            # All up to here is read or is no more; what should follow may still come.
            self._at = max(self._at, message.offset() or 0)
            return True
        if self._at < self._end:
            self._recover(error)
        return False

    def _recover(self, error: KafkaError) -> None:
        """Go on at the place that was reached: nothing is skipped with the error."""
        self._problem = trouble(self._url, error, f"partition {self._partition}: ")
        if error.code() in HOPELESS:
            raise self._problem
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._look_where_it_begins()
        time.sleep(_PAUSE_S)
        self._assign()

    def _look_where_it_begins(self) -> None:
        try:
            first = self._ask(OFFSET_BEGINNING)
        except QueueAway as away:
            self._problem = away
            return
        if self._at < first:
            raise OffsetsGone(self._partition, self._at, first)

    def _silence(self) -> QueueError:
        """Why nothing came for so long."""
        try:
            last = self._ask(OFFSET_END)
        except QueueError as error:
            return error
        if last < self._end:
            return OffsetsMissing(self._partition, self._end - 1, last)
        return self._problem or QueueAway(
            f"queue {self._url}: partition {self._partition}: nothing came for {self._timeout_s:g}"
            f" s at offset {self._at}"
        )

    def _ask(self, when: int) -> int:
        within_s = min(_ASK_S, self._timeout_s)
        answer = offsets_of(self._consumer, self._url, [self._partition], when, within_s)
        return answer[self._partition]


def _runs(messages: Sequence[Message]) -> Iterator[tuple[Sequence[Message], Message | None]]:
    """The messages up to each error, with the error."""
    start = 0
    if any(map(Message.error, messages)):
        for number, message in enumerate(messages):
            if message.error():
                yield messages[start:number], message
                start = number + 1
    yield messages[start:] if start else messages, None


def _offset(message: Message) -> int:
    return message.offset() or 0
