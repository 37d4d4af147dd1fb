"""What a failed stream means: whether it may be tried again, and what to say of it.

An error of ours comes back from Spark's processes as text inside of Spark's own; here it becomes
again what it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from nexus.lake.errors import BatchesLost, Fenced, StoreOut
from nexus.pipeline.errors import PipelineError
from nexus.queue.errors import QueueAway

_OURS: Final = re.compile(r"^(?:\w+Error: )?(nexus\.[\w.]+): (.+)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception)): (.+)$", re.MULTILINE)
_AWAY: Final = (
    "nexus.queue.errors.QueueAway",
    "nexus.queue.errors.TopicMissing",
    "nexus.lake.errors.StoreOut",
)
_FINAL: Final = (
    "nexus.queue.errors.OffsetsGone",
    "nexus.queue.errors.OffsetsMissing",
    "nexus.queue.errors.QueueError",
    "nexus.queue.etcd.identity.QueueAnew",
    "nexus.queue.etcd.positions.Backwards",
    "nexus.pipeline.source.backlog.MessagesGone",
    "nexus.pipeline.source.backlog.StartMoved",
    "nexus.pipeline.source.options.BadOption",
    "nexus.pipeline.source.start.BadStart",
    "nexus.lake.errors.Fenced",
)
_LINE_MAX: Final = 500
BACKOFF_S: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
TRIES: Final = 6


class StreamFailed(PipelineError):
    """Raised when a stream cannot go on."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a stream ended: in words, and what follows from it."""

    message: str
    is_final: bool = False  # trying again would not help
    is_away: bool = False  # queue or store does not answer; it may later, however long that takes


def failure_of(error: BaseException) -> Failure:
    """What an exception from a stream or from its sink means."""
    if isinstance(error, Fenced | BatchesLost):
        return Failure(str(error), is_final=True)
    if isinstance(error, QueueAway | StoreOut):
        return Failure(str(error), is_away=True)
    if isinstance(error, PySparkException | Py4JError):
        return failure_in(str(error))
    return Failure(_short(" ".join(str(error).split()) or type(error).__name__))


def failure_in(text: str) -> Failure:
    """What the text of an error from Spark means; the innermost of our own errors counts."""
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        return Failure(_short(message), is_final=name in _FINAL, is_away=name in _AWAY)
    python = [found for found in _PYTHON.findall(text) if "pyspark" not in found[0].lower()]
    if python:
        return Failure(_short(": ".join(python[-1])))
    first = next((line.strip() for line in text.splitlines() if line.strip()), "unknown")
    return Failure(_short(first))


def backoff_s(failures: int) -> float:
    """How long to wait after so many failures in a row."""
    return BACKOFF_S[min(max(failures, 1), len(BACKOFF_S)) - 1]


def _short(text: str) -> str:
    return text if len(text) <= _LINE_MAX else text[:_LINE_MAX] + "…"
