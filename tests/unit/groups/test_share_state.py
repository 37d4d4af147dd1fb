"""What is stored of share groups: bounded, safe to replay, and closed to leaders of the past."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.groups.sharing.effects import Record
from nexus.groups.sharing.state_log import (
    CHANGES_MAX,
    NOT_STARTED,
    Fenced,
    KeyValue,
    StateKey,
    StateLog,
)

KEY = StateKey("g", UUID(int=7), 3)
OTHER = KEY._replace(group="h")


def replayed(records: list[KeyValue], *, is_compacted: bool = False) -> StateLog:
    if is_compacted:
        last = {key: at for at, (key, _) in enumerate(records)}
        records = [one for at, one in enumerate(records) if last[one[0]] == at]
    again = StateLog()
    again.load(records)
    assert not again.skipped
    return again


def test_a_state_that_was_never_written_has_not_started() -> None:
    log = StateLog()
    assert log.read(KEY, 1)[0].start == NOT_STARTED
    log.write(KEY, 1, Record(5, ((7, 8),)))
    assert log.read(KEY, 1)[0] == Record(5, ((7, 8),))
    assert log.groups(KEY.topic_id, 3) == ["g"]


def test_a_deposed_leader_cannot_write() -> None:
    log = StateLog()
    records = log.write(KEY, 1, Record(5))
    records += log.read(KEY, 2)[1]
    with pytest.raises(Fenced):
        log.write(KEY, 1, Record(6))
    with pytest.raises(Fenced):
        replayed(records).write(KEY, 1, Record(6))


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 30)))), st.booleans())
def test_whatever_was_written_is_read_after_a_restart(
    steps: list[tuple[int, set[int]]], is_compacted: bool
) -> None:
    log, records, start = StateLog(), [], 0
    for forward, attempts in steps:
        start += forward
        tried = tuple((start + at, forward + 1) for at in sorted(attempts))
        for key in (KEY, OTHER):
            change = Record(start, ((start + 40, start + 41),), tried)
            records += log.write(key, 1, change)
    again = replayed(records, is_compacted=is_compacted)
    for key in (KEY, OTHER) if steps else ():
        assert again.read(key, 1)[0] == log.read(key, 1)[0]


def test_the_log_does_not_grow_with_the_history() -> None:
    log, records = StateLog(), []
    for start in range(10 * CHANGES_MAX):
        records += log.write(KEY, 1, Record(start, (), ((start, 1),)))
    assert len({key for key, _ in records}) <= CHANGES_MAX
    assert max(len(value or b"") for _, value in records) < 100
    assert replayed(records, is_compacted=True).read(KEY, 1)[0] == log.read(KEY, 1)[0]


def test_a_topic_that_is_gone_is_forgotten() -> None:
    log = StateLog()
    records = log.write(KEY, 1, Record(5))
    records += log.forget(KEY.topic_id)
    assert replayed(records).groups(KEY.topic_id, 3) == []


def test_what_cannot_be_read_is_skipped() -> None:
    log = StateLog()
    log.load([(b"x", b"y"), (None, None), (log.write(KEY, 1, Record(5))[0][0], b"\x07")])
    assert log.skipped == 3
