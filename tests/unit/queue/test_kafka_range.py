"""A range is given once, whole and in order, whatever a consumer hands out on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from nexus.queue import kafka_range
from nexus.queue.errors import OffsetsGone, OffsetsMissing, QueueAway, QueueError
from nexus.queue.kafka_range import KafkaRange
from nexus.queue.url import KafkaUrl

URL = KafkaUrl(("localhost:9092",), "t")
TRANSIENT = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._TRANSPORT, KafkaError._BAD_MSG)


def good(offset: int) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=b"%d" % offset)


def bad(code: int, offset: int = -1001) -> Message:
    return Message(topic="t", partition=0, offset=offset, error=KafkaError(code))


class ScriptedConsumer:
    """A log, cut into answers; errors of the script come before the answer of their number."""

    def __init__(
        self,
        log: Sequence[int],
        *,
        end: int | None = None,
        first: int = 0,
        answer: int = 3,
        errors: dict[int, int] | None = None,
    ) -> None:
        self.log, self.first, self.answer = log, first, answer
        self.end = end if end is not None else (max(log) + 1 if log else first)
        self.errors = dict(errors or {})
        self.at: int | None = None
        self.asked = 0
        self.assigned: list[int] = []

    def assign(self, places: list[TopicPartition]) -> None:
        (place,) = places
        self.at = place.offset
        self.assigned.append(place.offset)

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert count > 0
        self.asked += 1
        if self.at is None:
            return []
        if self.asked in self.errors:
            self.at = None  # as the client: nothing more until it is told to
            return [bad(self.errors[self.asked])]
        if not self.first <= self.at <= self.end:
            self.at = None
            return [bad(KafkaError._AUTO_OFFSET_RESET)]
        left = [offset for offset in self.log if offset >= self.at][: min(count, self.answer)]
        self.at = left[-1] + 1 if left else self.end
        return [good(offset) for offset in left]

    def poll(self, timeout: float) -> Message | None:
        return bad(KafkaError._PARTITION_EOF, self.end) if self.at == self.end else None

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> Any:
        known = {OFFSET_BEGINNING: self.first, OFFSET_END: self.end}
        return [TopicPartition(p.topic, p.partition, known[p.offset]) for p in places]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_range, "_PAUSE_S", 0)


def read(consumer: Any, start: int, end: int, timeout_s: float = 0.05) -> list[int]:
    wanted = KafkaRange(consumer, URL, 0, start, end, timeout_s=timeout_s)
    return [offset for batch in wanted.batches() for offset in batch.offsets()]


LOGS = st.sets(st.integers(0, 60), max_size=40).map(sorted)
ERRORS = st.dictionaries(st.integers(1, 8), st.sampled_from(TRANSIENT), max_size=4)


@given(LOGS, st.integers(0, 30), st.integers(0, 30), st.integers(1, 7), ERRORS)
def test_a_range_is_what_the_log_has_of_it(
    log: list[int], start: int, length: int, answer: int, errors: dict[int, int]
) -> None:
    consumer = ScriptedConsumer(log, end=61, answer=answer, errors=errors)
    expected = [offset for offset in log if start <= offset < start + length]
    assert read(consumer, start, start + length, timeout_s=10) == expected


def test_an_error_in_the_middle_goes_on_where_it_came() -> None:
    consumer = ScriptedConsumer(range(9), errors={2: KafkaError._BAD_MSG})
    assert read(consumer, 0, 9) == list(range(9))
    assert consumer.assigned == [0, 3]


def test_messages_of_before_and_after_the_range_are_left_out() -> None:
    consumer: Any = ScriptedConsumer(range(10))
    consumer.consume = lambda count, timeout: [good(n) for n in range(10)]
    assert read(consumer, 4, 7) == [4, 5, 6]


def test_what_was_removed_is_an_error_that_says_what_is_left() -> None:
    consumer = ScriptedConsumer(range(20, 30), first=20)
    with pytest.raises(OffsetsGone) as caught:
        read(consumer, 5, 25)
    assert (caught.value.start, caught.value.first) == (5, 20)


def test_what_is_removed_while_it_is_read_is_an_error_from_there_on() -> None:
    consumer: Any = ScriptedConsumer(range(30))
    batches = KafkaRange(consumer, URL, 0, 0, 30, timeout_s=1).batches()
    assert next(batches).offsets() == [0, 1, 2]
    consumer.first = 20
    with pytest.raises(OffsetsGone) as caught:
        next(batches)
    assert (caught.value.start, caught.value.first) == (3, 20)


def test_what_came_before_an_error_is_given_before_it() -> None:
    consumer: Any = ScriptedConsumer(range(20, 30), first=20)
    reset = bad(KafkaError._AUTO_OFFSET_RESET)
    consumer.consume = lambda count, timeout: [good(3), good(4), reset]
    batches = KafkaRange(consumer, URL, 0, 3, 30, timeout_s=1).batches()
    assert next(batches).offsets() == [3, 4]
    with pytest.raises(OffsetsGone) as caught:
        next(batches)
    assert (caught.value.start, caught.value.first) == (5, 20)


def test_what_comes_behind_the_end_of_a_moment_ago_is_given_too() -> None:
    consumer: Any = ScriptedConsumer(range(10))
    ends = [bad(KafkaError._PARTITION_EOF, 3), bad(KafkaError._PARTITION_EOF, 5)]
    consumer.consume = lambda count, timeout: [good(2), ends[0], good(3), good(4), ends[1], good(5)]
    assert read(consumer, 2, 6) == [2, 3, 4, 5]
    assert consumer.assigned == [2]


def test_what_comes_behind_an_error_is_asked_for_again() -> None:
    consumer: Any = ScriptedConsumer(range(10))
    answers = [[good(2), bad(KafkaError._BAD_MSG), good(4), good(5)], [good(3), good(4), good(5)]]
    consumer.consume = lambda count, timeout: answers.pop(0)
    assert read(consumer, 2, 6) == [2, 3, 4, 5]
    assert consumer.assigned == [2, 3]


def test_an_error_behind_the_range_does_not_matter() -> None:
    consumer: Any = ScriptedConsumer(range(10))
    denied = bad(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    consumer.consume = lambda count, timeout: [good(2), good(3), denied]
    assert read(consumer, 2, 4) == [2, 3]


@pytest.mark.parametrize("start", [5, 12], ids=["in it", "after it"])
def test_a_log_that_ends_too_early_is_an_error(start: int) -> None:
    with pytest.raises(OffsetsMissing) as caught:
        read(ScriptedConsumer(range(10)), start, 15)
    assert (caught.value.wanted, caught.value.end) == (14, 10)


def test_silence_is_an_error_only_after_its_time() -> None:
    consumer: Any = ScriptedConsumer(range(10))
    consumer.consume = lambda count, timeout: []
    consumer.poll = lambda timeout: None
    with pytest.raises(QueueAway, match=r"nothing came for 0\.05 s at offset 2"):
        read(consumer, 2, 5)


def test_the_last_problem_is_told() -> None:
    errors = dict.fromkeys(range(1, 10_000), KafkaError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(QueueAway, match=r"partition 0: .*leader"):
        read(ScriptedConsumer(range(10), errors=errors), 0, 5)


def test_what_waiting_cannot_put_right_is_told_at_once() -> None:
    consumer = ScriptedConsumer(range(10), errors={1: KafkaError.TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(QueueError, match="authorization"):
        read(consumer, 0, 5, timeout_s=1000)


def test_an_empty_range_asks_nobody() -> None:
    consumer = ScriptedConsumer(range(10))
    assert read(consumer, 5, 5) == read(consumer, 7, 5) == []
    assert consumer.assigned == []


def test_time_that_the_caller_takes_is_not_silence() -> None:
    now = [0.0]
    consumer: Any = ScriptedConsumer(range(9))
    wanted = KafkaRange(consumer, URL, 0, 0, 9, timeout_s=5, clock=lambda: now[0])
    seen: list[int] = []
    for batch in wanted.batches():
        seen += batch.offsets()
        now[0] += 1000
    assert seen == list(range(9))
