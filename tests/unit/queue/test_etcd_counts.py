"""A tally moves only with the transaction that it is part of, and knows one that had happened."""

from __future__ import annotations

import orjson
import pytest

from nexus.etcd import KeyValue
from nexus.queue.etcd.counts import Count, Step, Tally, Totals, entry_of

KEY = b"/q.meta/bells/p/0"


def stored(step: Step, revision: int) -> KeyValue:
    return KeyValue(KEY, step.put.value, 1, revision, 1, 0)


def test_a_step_holds_the_new_totals_and_the_condition_that_nothing_has_changed() -> None:
    tally = Tally(KEY, "p")
    first = tally.step(Count(3, 30), 1000)
    assert first.when.operand == 0
    said = orjson.loads(first.put.value)
    assert (said["transaction"], said["keys"], said["messages"], said["at"]) == (1, 3, 30, 1000)
    tally.done(first, 77)
    second = tally.step(Count(1, 10), 1001)
    assert second.when.operand == 77
    assert orjson.loads(second.put.value)["keys"] == 4


def test_a_step_that_failed_leaves_the_tally_as_it_was() -> None:
    tally = Tally(KEY)
    assert tally.step(Count(3, 3), 1).put == tally.step(Count(3, 3), 1).put
    assert tally.count == Count()


def test_a_transaction_whose_answer_was_lost_is_recognised() -> None:
    tally = Tally(KEY)
    step = tally.step(Count(5, 5), 1)
    assert tally.was_done(step, stored(step, 9))
    assert (tally.count, tally.step(Count(), 2).when.operand) == (Count(5, 5), 9)


def test_one_that_did_not_happen_is_made_again_on_what_is_there() -> None:
    tally = Tally(KEY)
    first = tally.step(Count(5, 5), 1)
    tally.done(first, 9)
    second = tally.step(Count(2, 2), 2)
    assert not tally.was_done(second, stored(first, 4))  # restored from a backup, say
    again = tally.step(Count(2, 2), 2)
    assert (again.when.operand, again.total) == (4, Count(7, 7))


def test_a_tally_that_was_folded_begins_at_nothing() -> None:
    tally = Tally(KEY)
    tally.done(tally.step(Count(5, 5), 1), 9)
    step = tally.step(Count(1, 1), 2)
    assert not tally.was_done(step, None)
    again = tally.step(Count(1, 1), 2)
    assert (again.when.operand, again.total, again.transaction) == (0, Count(1, 1), 2)


def test_what_another_process_left_is_never_taken_for_ones_own() -> None:
    before = Tally(KEY)
    left = before.step(Count(50, 50), 1)
    tally = Tally(KEY)
    step = tally.step(Count(1, 1), 2)
    assert not tally.was_done(step, stored(left, 9))
    assert tally.step(Count(1, 1), 2).total == Count(51, 51)


@pytest.mark.parametrize("value", [b"", b"7", b"{}", b"[]", b'{"keys": "x", "messages": 1}'])
def test_what_is_no_tally_counts_nothing(value: bytes) -> None:
    assert entry_of(KeyValue(KEY, value, 1, 2, 1, 0)).total == Count()


def test_keys_say_how_many_messages_they_count_for() -> None:
    keys = [b"/q/c/0/1_h_0_01", b"/q/c/0/1_h_packed-40_02"]
    assert Count.of(keys) == Count(2, 41)


def test_expired_is_what_was_neither_taken_nor_waits_and_never_less_than_nothing() -> None:
    assert Totals(1, Count(10, 10), Count(4, 4), 5).expired == 1
    assert Totals(1, Count(3, 3), Count(4, 4), 5).expired == 0
