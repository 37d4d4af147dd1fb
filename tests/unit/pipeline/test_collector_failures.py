"""What a failed stream means, out of the text that Spark wraps around our own errors."""

import pytest
from pyspark.errors import PySparkException

from nexus.lake.errors import BatchesLost, Fenced, StoreError
from nexus.pipeline.collector.failures import backoff_s, failure_in, failure_of
from nexus.queue.errors import QueueAway, TopicMissing

SPARK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
latestOffset: Traceback (most recent call last):
  File "/x/python_streaming_source_runner.py", line 1, in main
    raise PySparkRuntimeError(
  File "/x/planner.py", line 9, in next_end
    raise {error}
{error}
 SQLSTATE: 38000
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(Q.scala:1)
"""


def in_spark(error: str) -> str:
    return SPARK.replace("{error}", error)


def test_a_queue_that_is_away_is_waited_for() -> None:
    found = failure_in(in_spark("nexus.queue.errors.QueueAway: queue kafka://h: no broker answers"))
    assert found.message == "queue kafka://h: no broker answers"
    assert (found.is_away, found.is_final) == (True, False)


@pytest.mark.parametrize(
    "name",
    [
        "nexus.queue.errors.OffsetsGone",
        "nexus.pipeline.source.options.BadOption",
        "nexus.pipeline.source.start.BadStart",
        "nexus.lake.errors.Fenced",
    ],
)
def test_what_trying_again_does_not_change_is_final(name: str) -> None:
    found = failure_in(in_spark(f"{name}: say --on-gone skip"))
    assert found.message == "say --on-gone skip"
    assert found.is_final


def test_the_names_that_are_told_apart_are_those_of_real_errors() -> None:
    from importlib import import_module

    from nexus.pipeline.collector import failures

    for name in (*failures._AWAY, *failures._FINAL):
        module, _, cls = name.rpartition(".")
        assert issubclass(getattr(import_module(module), cls), Exception)


def test_an_error_of_python_is_its_last_line() -> None:
    found = failure_in(in_spark("OSError: [Errno 28] No space left on device"))
    assert found.message == "OSError: [Errno 28] No space left on device"
    assert (found.is_final, found.is_away) == (False, False)


def test_anything_else_is_its_first_line() -> None:
    text = "\n[X] Job aborted due to stage failure: ExecutorLostFailure\n\tat org.apache.spark\n"
    found = failure_in(text)
    assert found.message == "[X] Job aborted due to stage failure: ExecutorLostFailure"


def test_exceptions_keep_their_meaning() -> None:
    assert failure_of(Fenced("another took over")).is_final
    assert failure_of(BatchesLost("gone")).is_final
    assert failure_of(QueueAway("away")).is_away
    assert failure_of(TopicMissing("no topic")).is_away
    assert failure_of(StoreError("no")).message == "no"
    assert failure_of(OSError("a\n  b")).message == "a b"
    assert failure_of(ValueError()).message == "ValueError"
    assert failure_of(PySparkException(in_spark("nexus.queue.errors.QueueAway: w"))).is_away


def test_pauses_grow_to_a_bound() -> None:
    pauses = [backoff_s(n) for n in range(1, 20)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (1.0, 30.0)
