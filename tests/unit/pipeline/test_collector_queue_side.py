"""The collector's own talk with the queue: waiting for it, lag, and the group's offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from nexus.pipeline.collector import queue_side
from nexus.pipeline.collector.progress import Progress
from nexus.pipeline.collector.queue_side import QueueSide, missing
from nexus.queue.errors import QueueAway, QueueError
from nexus.queue.port import Batch, Bounds, Received
from support.views import HandClock, batch, bounds, running
from support.waiting import wait_until


@dataclass
class FakeReader:
    """A queue of two partitions that is away as often as told."""

    away: int = 0
    refuses: bool = False
    committed: list[tuple[str, dict[int, int]]] = field(default_factory=list)
    is_closed: bool = False

    def partitions(self) -> Sequence[int]:
        return (0, 1)

    def bounds(self, partitions: Sequence[int] | None = None) -> dict[int, Bounds]:
        if self.away:
            self.away -= 1
            raise QueueAway("no broker answers")
        return {0: Bounds(0, 50), 1: Bounds(0, 7)}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        return {}

    def read(self, partition: int, start: int, end: int) -> Iterator[Batch]:
        return iter(())

    def sample(self, partition: int, offset: int) -> Received | None:
        return None

    def samples(self, offsets: Mapping[int, int]) -> dict[int, Received]:
        return {}

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        if self.refuses:
            raise QueueError("the group has members of its own")
        self.committed.append((group, dict(offsets)))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_side, "LOOK_S", 0.0)
    monkeypatch.setattr(queue_side, "WAIT_S", 0.01)


def side_of(reader: FakeReader, partitions: str = "") -> tuple[QueueSide, Progress]:
    progress = running(HandClock())
    return QueueSide(reader, "g", partitions, progress), progress


def test_it_waits_for_a_queue_that_is_away_and_says_so() -> None:
    side, progress = side_of(FakeReader(away=3))
    said: list[str] = []
    assert side.wait(lambda: False, said.append)
    assert said == ["no broker answers"] * 3
    assert progress.view().queue_problem == ""
    assert progress.view().bounds[1] == Bounds(0, 7)


def test_it_stops_waiting_when_told() -> None:
    side, _ = side_of(FakeReader(away=10**6))
    said: list[str] = []
    assert not side.wait(lambda: len(said) >= 2, said.append)


def test_only_its_own_partitions_count() -> None:
    side, progress = side_of(FakeReader(), partitions="1-3")
    side.wait(lambda: False, lambda why: None)
    assert list(progress.view().bounds) == [1]


def test_what_is_stored_is_committed_the_last_batch_included() -> None:
    reader = FakeReader()
    side, progress = side_of(reader)
    side.start()
    batch(progress, 0, 10, end=30)
    side.done()
    wait_until(lambda: reader.committed == [("g", {0: 30})])
    batch(progress, 1, 10, end=40)
    side.stop()
    assert reader.committed[-1] == ("g", {0: 40})
    assert reader.is_closed
    side.stop()
    assert len(reader.committed) == 2


def test_a_commit_that_is_refused_stops_nothing() -> None:
    reader = FakeReader(refuses=True)
    side, progress = side_of(reader)
    batch(progress, 0, 10, end=30)
    side.start()
    side.done()
    wait_until(lambda: progress.view().bounds)
    reader.refuses = False
    wait_until(lambda: reader.committed == [("g", {0: 30})])
    side.stop()


def test_while_the_queue_is_away_that_is_known() -> None:
    reader = FakeReader()
    side, progress = side_of(reader)
    side.start()
    reader.away = 10**6
    wait_until(lambda: progress.view().queue_problem == "no broker answers")
    reader.away = 0
    wait_until(lambda: not progress.view().queue_problem)
    side.stop()


def test_partitions_that_do_not_exist_are_named() -> None:
    assert missing(bounds(5), "0-2") == [1, 2]
    assert missing(bounds(5), "0") == []
    assert missing(bounds(5), "") == []
