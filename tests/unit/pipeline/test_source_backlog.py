"""What is there, what is gone, and what cannot be: between any two places of a queue."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.pipeline.source.backlog import (
    MessagesGone,
    QueueShrank,
    StartMoved,
    backlog,
    from_json,
    gone_fault,
    refuse_gone,
    to_json,
)
from nexus.pipeline.source.planning import Range
from nexus.queue.port import Bounds
from support.readings import examples

offsets = st.dictionaries(st.integers(0, 200), st.integers(0, 2**62), max_size=20)


def test_everything_that_is_there_is_read() -> None:
    found = backlog({0: 5, 1: 3}, {0: 9, 1: 3}, {0: Bounds(0, 12), 1: Bounds(0, 3)})
    assert found.ranges == (Range(0, 5, 9),)
    assert found.gone == ()


def test_a_partition_that_came_later_is_read_from_its_first_message() -> None:
    found = backlog({0: 5}, {0: 5, 1: 4}, {0: Bounds(0, 5), 1: Bounds(0, 4)})
    assert found.ranges == (Range(1, 0, 4),)


def test_what_retention_removed_is_named() -> None:
    found = backlog({0: 10, 1: 0}, {0: 40, 1: 8}, {0: Bounds(26, 40), 1: Bounds(20, 30)})
    assert found.ranges == (Range(0, 26, 40),)
    assert found.gone == (Range(0, 10, 26), Range(1, 0, 8))
    assert gone_fault(found.gone[0]) == (
        "offsets 10 to 25 were removed by retention before they were read"
    )
    with pytest.raises(
        MessagesGone, match=r"offsets 10 to 25 .* \(24 messages in 2 partitions\).* on_gone=skip"
    ):
        refuse_gone(found.gone)


def test_nothing_gone_is_nothing_to_refuse() -> None:
    refuse_gone([])


@pytest.mark.parametrize("bounds", [{0: Bounds(0, 8)}, {}, {1: Bounds(0, 99)}])
def test_a_queue_that_lost_messages_is_an_error(bounds: dict[int, Bounds]) -> None:
    with pytest.raises(QueueShrank, match=r"partition 0 .* reading should go on at 9"):
        backlog({0: 9}, {0: 9}, bounds)


def test_a_start_that_was_not_kept_is_an_error() -> None:
    with pytest.raises(StartMoved, match=r"ends at 5 .* start is now 9; .* start_file"):
        backlog({0: 9}, {0: 5}, {0: Bounds(0, 20)})


@examples(200)
@given(offsets)
def test_offsets_come_back_from_spark_as_they_were(given_: dict[int, int]) -> None:
    text = json.dumps(to_json(given_))
    assert from_json(json.loads(text)) == given_
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


@examples(200)
@given(st.data())
def test_nothing_is_read_twice_and_nothing_is_forgotten(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 100))
    end = data.draw(st.integers(start, 200))
    first = data.draw(st.integers(0, 200))
    last = data.draw(st.integers(max(first, end), 300))
    found = backlog({0: start}, {0: end}, {0: Bounds(first, last)})
    here = [offset for r in found.ranges for offset in range(r.start, r.end)]
    gone = [offset for r in found.gone for offset in range(r.start, r.end)]
    assert gone + here == list(range(start, end))
    assert all(first <= offset < last for offset in here)
    assert all(offset < first for offset in gone)
