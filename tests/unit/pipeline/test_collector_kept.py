"""A stream that failed: started again while that may help, and given up when it cannot."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from nexus.pipeline.collector.failures import TRIES, Failure, StreamFailed
from nexus.pipeline.collector.kept import Kept
from nexus.pipeline.collector.progress import Progress
from nexus.pipeline.sink.port import Stored
from support.views import STORE, HandClock, bounds, running


@dataclass
class FakeStream:
    """Ends at once, each time with the next failure; without one, at its end."""

    failures: list[Failure | None]
    starts: int = 0
    is_active: bool = False
    refuses: int = 0
    plan: Any = field(default_factory=lambda: SimpleNamespace(url=STORE))

    def start(self) -> None:
        self.starts += 1
        if self.refuses:
            self.refuses -= 1
            raise PySparkException("[X] cannot plan")

    def failure(self) -> Failure | None:
        return self.failures.pop(0) if self.failures else None


def kept(stream: FakeStream, progress: Progress) -> Kept:
    return Kept(cast(Any, stream), progress, pause_s=lambda failures: 0.0)


@pytest.fixture
def progress() -> Progress:
    return running(HandClock())


def looks(it: Kept, times: int) -> list[bool]:
    return [it.look() for _ in range(times)]


def test_it_is_left_alone_while_it_works(progress: Progress) -> None:
    stream = FakeStream([], is_active=True)
    assert looks(kept(stream, progress), 3) == [False] * 3
    assert stream.starts == 0


def test_its_end_is_noticed(progress: Progress) -> None:
    assert kept(FakeStream([None]), progress).look()


def test_a_failure_is_told_and_the_stream_started_again(progress: Progress) -> None:
    stream = FakeStream([Failure("no room")])
    it = kept(stream, progress)
    assert looks(it, 2) == [False, False]
    assert progress.view().problem == "no room"
    assert stream.starts == 1
    assert it.look()


def test_a_start_that_spark_refuses_is_a_failure_too(progress: Progress) -> None:
    stream = FakeStream([], refuses=2)
    it = kept(stream, progress)
    it.start()
    assert progress.view().problem == "[X] cannot plan"
    looks(it, 2)
    assert stream.starts == 3
    assert it.look()


def test_what_cannot_be_mended_ends_it_at_once(progress: Progress) -> None:
    with pytest.raises(StreamFailed, match="gone"):
        kept(FakeStream([Failure("gone", is_final=True)]), progress).look()


def test_failures_in_a_row_end_it(progress: Progress) -> None:
    stream = FakeStream([Failure("no room")] * 100)
    it = kept(stream, progress)
    with pytest.raises(StreamFailed, match="no room"):
        looks(it, 200)
    assert stream.starts == TRIES - 1


def test_a_batch_in_between_forgives_them(progress: Progress) -> None:
    stream = FakeStream([Failure("no room")] * (3 * TRIES))
    it = kept(stream, progress)
    for number in range(2 * TRIES):
        looks(it, 2)
        progress.stored(STORE, number, Stored(readings=1), 0.1)
    assert stream.starts == 2 * TRIES


def test_a_queue_that_is_away_is_waited_for_however_long(progress: Progress) -> None:
    stream = FakeStream([Failure("away", is_away=True)] * 100)
    it = kept(stream, progress)
    looks(it, 100)
    assert stream.starts > TRIES


def test_while_the_queue_is_known_to_be_away_nothing_is_started(progress: Progress) -> None:
    stream = FakeStream([Failure("away", is_away=True)])
    it = kept(stream, progress)
    progress.queue(None, "no broker answers")
    looks(it, 10)
    assert stream.starts == 0
    progress.queue(bounds(1))
    looks(it, 1)
    assert stream.starts == 1
