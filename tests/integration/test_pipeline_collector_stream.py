"""One store's stream on a real queue: batches in order, an end between two of them, failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nexus.pipeline.collector.kept import Kept
from nexus.pipeline.collector.progress import Phase, Progress
from nexus.pipeline.collector.stream import StoreStream, StreamPlan
from nexus.pipeline.narrow import READING
from nexus.pipeline.sink.port import Batch, Stored
from support.broker import BrokerProcess
from support.published import arrow_messages, publish
from support.readings import fleet
from support.spark import spark_session
from support.waiting import wait_until

STORE = "delta:///x"
WITHIN = 60.0


class FakeSink:
    """Counts readings; waits or fails when told."""

    def __init__(self) -> None:
        self.batches: dict[int, int] = {}
        self.apps: set[str] = set()
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.fails = 0

    def store(self, batch: Batch) -> Stored:
        self.entered.set()
        assert self.go.wait(WITHIN)
        if self.fails:
            self.fails -= 1
            raise OSError(28, "No space left on device")
        count = batch.rows.where(f"kind = {READING}").count()
        self.batches[batch.number] = count
        self.apps.add(batch.app)
        return Stored(readings=count)


class Story:
    """A queue with readings, and streams that read it one after the other."""

    def __init__(self, folder: Path, broker: BrokerProcess, topic: str) -> None:
        self.folder, self.broker, self.topic = folder, broker, topic
        self.sink = FakeSink()
        self.progress = Progress((STORE,), lambda: 0.0)
        self.progress.enter(Phase.RUNNING)
        self.streams: list[StoreStream] = []

    def send(self, readings: int, seed: int) -> None:
        messages = arrow_messages(fleet(readings, gpus=4, seed=seed), 100)
        publish(self.broker.bootstrap, self.topic, messages)

    def stream(self, *, available_now: bool = False, **options: str) -> StoreStream:
        spark = spark_session()
        source = {
            "queue": f"kafka://{self.broker.bootstrap}/{self.topic}",
            "form": "narrow",
            "start_file": str(self.folder / "start.json"),
            "max_readings": "300",
            "tasks": "1",
            **options,
        }
        plan = StreamPlan(STORE, source, self.topic, self.folder / "checkpoint", 50, available_now)
        self.streams.append(StoreStream(spark, plan, self.sink, self.progress))
        return self.streams[-1]

    def committed(self) -> list[int]:
        return sorted(int(p.name) for p in self.folder.glob("checkpoint/commits/[0-9]*"))

    def ended(self, stream: StoreStream) -> None:
        wait_until(lambda: not stream.is_active, within=WITHIN, what="the end of the stream")

    @property
    def stored(self) -> int:
        return sum(self.sink.batches.values())


@pytest.fixture
def story(tmp_path: Path, broker: BrokerProcess, topic: str) -> Iterator[Story]:
    made = Story(tmp_path, broker, topic)
    yield made
    made.sink.go.set()
    for stream in made.streams:
        stream.finish(lambda: True)


def never() -> bool:
    return False


def test_what_is_there_is_stored_in_batches_of_bounded_size_and_then_it_ends(story: Story) -> None:
    story.send(1000, seed=1)
    stream = story.stream(available_now=True)
    stream.start()
    story.ended(stream)
    assert stream.failure() is None
    assert story.stored == 1000
    assert max(story.sink.batches.values()) <= 300
    stream.report_last()
    view = story.progress.view()
    assert view.stored() == {0: 10}
    assert view.total("readings") == 1000


def test_it_ends_after_the_running_batch_and_goes_on_from_there(story: Story) -> None:
    story.send(900, seed=1)
    story.sink.go.clear()
    stream = story.stream()
    stream.start()
    assert story.sink.entered.wait(WITHIN)
    ending = threading.Thread(target=stream.finish, args=(never,))
    ending.start()
    ending.join(0.3)
    assert ending.is_alive(), "it waits for the batch that runs"
    story.sink.go.set()
    ending.join(WITHIN)
    assert not ending.is_alive()
    assert list(story.sink.batches) == story.committed() == [0]
    assert story.progress.view().stored() == {0: 3}

    again = story.stream(available_now=True)
    again.start()
    story.ended(again)
    assert story.stored == 900
    assert len(story.sink.apps) == 1, "the same checkpoint numbers the batches of the same app"


def test_no_two_streams_share_what_spark_writes_into_when_they_start(story: Story) -> None:
    """Spark's map of a source's environment has no lock: one for each stream."""
    spark = spark_session()
    assert spark._jvm is not None
    known = spark._jsparkSession.sessionState().dataSourceManager()
    hash_of = spark._jvm.java.lang.System.identityHashCode

    def environment(stream: StoreStream) -> int:
        return int(hash_of(known.lookupDataSource(stream.source_name).dataSourceCls().envVars()))

    first, second = story.stream(), story.stream()
    assert environment(first) == environment(first) != environment(second)


def test_a_batch_that_fails_is_made_again(story: Story) -> None:
    story.send(100, seed=1)
    story.sink.fails = 1
    kept = Kept(story.stream(available_now=True), story.progress, pause_s=lambda failures: 0.0)
    kept.stream.start()
    look_until_done(kept)
    assert story.stored == 100
    view = story.progress.view()
    assert (view.stores[0].failures, view.problem) == (1, "")


def test_what_trying_again_cannot_mend_ends_it(story: Story) -> None:
    from nexus.pipeline.collector.failures import StreamFailed

    kept = Kept(story.stream(start='{"7": 1}'), story.progress, pause_s=lambda failures: 0.0)
    kept.stream.start()
    with pytest.raises(StreamFailed, match="7"):
        look_until_done(kept)


def look_until_done(kept: Kept, look: Callable[[], bool] | None = None) -> None:
    wait_until(look or kept.look, within=WITHIN, what="the end of the stream")
