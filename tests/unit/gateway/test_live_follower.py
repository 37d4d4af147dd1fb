"""The follower: blocks in order, gaps where something is missing, and the queue's health."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from nexus.gateway.live.follower import Follower, Status
from nexus.gateway.live.metrics import LiveMetrics
from nexus.gateway.live.position import Position
from nexus.gateway.live.ring import Block
from nexus.observe.metrics import Registry
from nexus.queue.errors import QueueError
from nexus.queue.port import Tail
from support.live import ListTail, message, received, shown
from support.waiting import wait_until


class Heard:
    """Everything that a follower told, in its order."""

    def __init__(self) -> None:
        self.starts: list[Position] = []
        self.statuses: list[Status] = []
        self.blocks: list[Block] = []

    def opened(self, start: Position) -> None:
        self.starts.append(start)

    def changed(self, status: Status) -> None:
        self.statuses.append(status)

    def came(self, block: Block) -> None:
        self.blocks.append(block)

    def has(self, blocks: int) -> bool:
        return len(self.blocks) >= blocks

    @property
    def states(self) -> list[str]:
        return [status.queue for status in self.statuses]


Follow = Callable[..., Heard]


@pytest.fixture
def follow() -> Iterator[Follow]:
    made: list[Follower] = []

    def start(open_tail: Callable[[], Tail], **options: Any) -> Heard:
        heard = Heard()
        made.append(Follower(open_tail, heard, LiveMetrics(Registry()), **options))
        made[-1].start()
        return heard

    yield start
    for follower in made:
        follower.stop()
        follower.join()


def test_blocks_say_where_the_queue_goes_on_behind_them(follow: Follow) -> None:
    tail = ListTail({0: 7, 1: 3})
    heard = follow(lambda: tail, gather_s=0.0)
    wait_until(lambda: heard.starts, what="the start")
    tail.batches.append(received({"uuid": "a"}, partition=0, offset=7))
    wait_until(lambda: heard.blocks, what="a block")
    tail.batches.append(received({"uuid": "b"}, partition=1, offset=3))
    wait_until(lambda: len(heard.blocks) == 2, what="another block")
    assert heard.starts[0].offsets == {0: 7, 1: 3}
    assert [dict(block.end.offsets) for block in heard.blocks] == [{0: 8, 1: 3}, {0: 8, 1: 4}]
    assert [shown(block.table)[0]["uuid"] for block in heard.blocks] == ["a", "b"]
    assert [block.gap for block in heard.blocks] == [None, None]


def test_what_comes_together_is_one_block(follow: Follow) -> None:
    tail = ListTail({0: 0})
    tail.batches += [received({"uuid": str(n)}, offset=n) for n in range(20)]
    heard = follow(lambda: tail, gather_s=0.5)
    wait_until(lambda: sum(b.table.num_rows for b in heard.blocks) == 20, what="all readings")
    assert len(heard.blocks) <= 2


def test_messages_without_a_reading_move_the_position_on(follow: Follow) -> None:
    tail = ListTail({0: 0})
    tail.batches.append([message(b"torn", offset=n) for n in range(3)])
    heard = follow(lambda: tail)
    wait_until(lambda: heard.blocks, what="a block")
    assert (heard.blocks[0].table.num_rows, dict(heard.blocks[0].end.offsets)) == (0, {0: 3})


def test_messages_that_the_tail_passed_over_are_a_gap(follow: Follow) -> None:
    tail = ListTail({0: 0})
    heard = follow(lambda: tail)
    wait_until(lambda: heard.starts, what="the start")
    tail.skipped, tail.at = 41, {0: 41}
    wait_until(lambda: heard.blocks, what="a gap")
    (block,) = heard.blocks
    assert block.gap is not None
    assert "passed over about 41 messages" in block.gap.reason
    assert (block.table.num_rows, dict(block.end.offsets)) == (0, {0: 41})
    assert heard.starts[0].time_ms <= (block.gap.from_ms or 0) <= block.gap.to_ms


def test_a_partition_that_goes_back_is_a_gap(follow: Follow) -> None:
    tail = ListTail({0: 100})
    heard = follow(lambda: tail)
    wait_until(lambda: heard.starts, what="the start")
    tail.batches.append(received({"uuid": "a"}, offset=2))
    wait_until(lambda: heard.blocks, what="a block")
    (block,) = heard.blocks
    assert block.gap is not None
    assert dict(block.end.offsets) == {0: 3}


def test_a_partition_that_is_new_is_no_gap(follow: Follow) -> None:
    tail = ListTail({0: 5})
    heard = follow(lambda: tail)
    wait_until(lambda: heard.starts, what="the start")
    tail.batches.append(received({"uuid": "a"}, partition=1, offset=0))
    wait_until(lambda: heard.blocks, what="a block")
    assert (heard.blocks[0].gap, dict(heard.blocks[0].end.offsets)) == (None, {0: 5, 1: 1})


def test_a_queue_that_is_there_from_the_first_message_on_begins_before_it(follow: Follow) -> None:
    tail = ListTail({})
    tail.problem = "away"
    heard = follow(lambda: tail)
    wait_until(lambda: heard.states == ["away"], what="the queue to be away")
    assert heard.starts == []
    tail.problem = ""
    tail.batches.append(received({"uuid": "a"}, partition=2, offset=9))
    wait_until(lambda: heard.blocks, what="a block")
    assert heard.starts[0].offsets == {2: 9}
    assert heard.states == ["away", "ok"]


def test_only_a_problem_that_lasts_is_told(follow: Follow) -> None:
    tail, now = ListTail({0: 0}), [0.0]
    heard = follow(lambda: tail, away_after_s=1.0, health_clock=lambda: now[0])
    wait_until(lambda: heard.states == ["ok"], what="the queue to be there")
    tail.problem = "a hiccup"
    for number in range(3):  # messages come in spite of it
        now[0] += 0.9
        tail.batches.append(received({"uuid": "a"}, offset=number))
        wait_until(partial(heard.has, number + 1), what="a block")
    assert heard.states == ["ok"]
    tail.problem = "no broker answers"
    now[0] += 1.0
    wait_until(lambda: heard.states == ["ok", "away"], what="the queue to be away")
    assert heard.statuses[-1].detail == "no broker answers"
    tail.problem = ""
    wait_until(lambda: heard.states == ["ok", "away", "ok"], what="the queue to be back")


def test_a_tail_that_cannot_be_opened_is_told_and_tried_again(follow: Follow) -> None:
    tails: list[ListTail] = []

    def open_tail() -> Tail:
        if not tails:
            tails.append(ListTail({0: 0}))
            raise QueueError("no such thing")
        return tails[0]

    heard = follow(open_tail)
    wait_until(lambda: heard.starts, what="the second try")
    wait_until(lambda: heard.states == ["away", "ok"], what="both states")
    assert heard.statuses[0].detail == "no such thing"
