"""Work beside the streams: again and again, past failures, until told to stop."""

import threading
from collections.abc import Callable, Mapping

import pytest

from nexus.lake.errors import Fenced
from nexus.pipeline.collector import chores
from nexus.pipeline.collector.chores import ChoreThread
from nexus.pipeline.collector.stores import Chore
from support.views import HandClock, running
from support.waiting import wait_until

Answer = tuple[bool, Mapping[str, object]]


class Work:
    """Does what it is told, one answer after the other; the last one for ever."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[bool] = []

    def __call__(self, stopped: Callable[[], bool], *, drain: bool) -> Answer:
        self.calls.append(drain)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def thread_of(work: Work, every_s: float = 0.01) -> ChoreThread:
    return ChoreThread(Chore("derive", every_s, 0.0, work), running(HandClock()))


def test_it_is_done_again_and_again_until_told_to_stop() -> None:
    work = Work((False, {"n": 1}))
    chore = thread_of(work)
    chore.start()
    wait_until(lambda: len(work.calls) >= 3)
    chore.stop()
    chore.join(5)
    calls = len(work.calls)
    assert work.calls == [False] * calls
    assert chore._progress.view().chores["derive"].facts == {"n": 1}


def test_what_is_left_over_does_not_wait_for_the_next_turn() -> None:
    work = Work((True, {}), (True, {}), (False, {}))
    chore = thread_of(work, every_s=3600)
    chore.start()
    wait_until(lambda: len(work.calls) >= 3)
    chore.stop()
    chore.join(5)


def test_a_failure_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "backoff_s", lambda failures: 0.0)
    work = Work(OSError("no room"), (False, {}))
    chore = thread_of(work)
    chore.start()
    wait_until(lambda: len(work.calls) >= 2)
    wait_until(lambda: chore._progress.view().chores["derive"].runs >= 2)
    chore.stop()
    chore.join(5)
    view = chore._progress.view().chores["derive"]
    assert (view.failures, view.problem) == (1, "")


def test_the_loss_of_the_store_ends_it() -> None:
    chore = thread_of(Work(Fenced("taken over")))
    chore.start()
    wait_until(lambda: chore.fatal)
    chore.join(5)
    assert "taken over" in str(chore.fatal)


def test_draining_ends_when_nothing_is_left() -> None:
    work = Work((True, {}), (True, {}), (False, {}))
    thread_of(work).drain()
    assert work.calls == [True, True, True]


def test_draining_does_not_go_on_after_a_failure() -> None:
    work = Work(OSError("no room"))
    thread_of(work).drain()
    assert len(work.calls) == 1


def test_what_does_not_end_by_itself_is_cancelled() -> None:
    cancelled = threading.Event()

    def work(stopped: Callable[[], bool], *, drain: bool) -> Answer:
        cancelled.wait(10)
        return False, {}

    chore = Chore("derive", 1.0, 0.0, work, cancel=cancelled.set)
    thread = ChoreThread(chore, running(HandClock()))
    thread.start()
    thread.stop()
    thread.join(0.1)
    assert cancelled.is_set()
