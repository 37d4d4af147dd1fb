"""The position of a watch over answers, pieces and broken streams."""

from __future__ import annotations

from typing import Any

import pytest

from nexus.etcd.cursor import Cursor, WatchRefused
from nexus.etcd.errors import Compacted
from nexus.etcd.schema import WatchResponse


def answer(*revisions: int, now: int = 0, **fields: Any) -> Any:
    """An answer with an event for each revision."""
    response = WatchResponse(**fields)
    response.header.revision = now or max(revisions, default=0)
    for revision in revisions:
        response.events.add().kv.mod_revision = revision
    return response


def revisions_of(cursor: Cursor, *answers: Any) -> list[list[int]]:
    batches = [cursor.take(each) for each in answers]
    return [[e.item.mod_revision for e in batch.events] for batch in batches if batch]


def test_a_watch_from_now_on_misses_nothing_once_it_was_created() -> None:
    cursor = Cursor()
    assert cursor.take(answer(now=7, created=True)) is None
    assert cursor.next_revision == 8


def test_a_watch_from_a_revision_keeps_it_when_it_is_created() -> None:
    cursor = Cursor(3)
    cursor.take(answer(now=7, created=True))
    assert cursor.next_revision == 3


def test_what_comes_again_on_a_new_stream_is_skipped() -> None:
    cursor = Cursor(3)
    assert revisions_of(cursor, answer(3, 4)) == [[3, 4]]
    cursor.restart()
    assert revisions_of(cursor, answer(3, 4), answer(4, 5, 6)) == [[5, 6]]


def test_pieces_are_put_together_and_half_a_revision_is_never_shown() -> None:
    cursor = Cursor(3)
    assert revisions_of(cursor, answer(3, fragment=True), answer(3, 3)) == [[3, 3, 3]]
    assert revisions_of(cursor, answer(4, fragment=True)) == []
    cursor.restart()  # the stream broke: all of revision 4 comes again
    assert revisions_of(cursor, answer(4, 4)) == [[4, 4]]


def test_progress_moves_the_place_and_never_back() -> None:
    cursor = Cursor(3)
    told = cursor.take(answer(now=9))
    assert told is not None
    assert (told.revision, told.events) == (9, ())
    assert cursor.take(answer(now=5)) is None
    assert cursor.next_revision == 10


def test_a_lost_place_is_told_with_the_oldest_that_is_left() -> None:
    with pytest.raises(Compacted) as told:
        Cursor(3).take(answer(canceled=True, compact_revision=50))
    assert told.value.compact_revision == 50


def test_a_watch_that_the_server_ends_says_why() -> None:
    with pytest.raises(WatchRefused, match="permission denied"):
        Cursor(3).take(answer(canceled=True, cancel_reason="permission denied"))
