"""Spark's reports on its streams, as facts about batches.

A report comes after Spark's own commit of a batch, so the offsets in it are safe to tell others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from nexus.observe.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """One trigger of one stream: the batch's number, what is committed, and where time went."""

    name: str
    number: int
    ends: Mapping[int, int]
    seconds: float
    phases_s: Mapping[str, float]
    place: Mapping[str, Any] = field(default_factory=dict, compare=False)  # as the source said it


def report_of(said: Mapping[str, Any]) -> Report:
    """Of a progress report in Spark's JSON form."""
    durations = {name: ms / 1000 for name, ms in (said.get("durationMs") or {}).items()}
    source = (said.get("sources") or [{}])[0]
    place = _place(source.get("endOffset"))
    return Report(
        name=said.get("name") or "",
        number=int(said["batchId"]),
        ends=_offsets(place),
        seconds=durations.pop("triggerExecution", 0.0),
        phases_s=durations,
        place=place,
    )


def _place(said: object) -> dict[str, Any]:
    """Spark gives offsets as JSON, or as JSON in a text."""
    found = json.loads(said) if isinstance(said, str) and said.startswith("{") else said
    return found if isinstance(found, dict) else {}


def _offsets(place: Mapping[str, Any]) -> dict[int, int]:
    """The offsets by partition; none where a source has its own way to say where it is."""
    if not all(isinstance(offset, int) and name.isdecimal() for name, offset in place.items()):
        return {}
    return {int(partition): offset for partition, offset in place.items()}


class Reports(StreamingQueryListener):
    """Hands every report to `tell`; what goes wrong there must not reach Spark."""

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's
        """Nothing to tell yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's
        try:
            self._tell(report_of(json.loads(event.progress.json)))
        except (OSError, Py4JError):
            return  # Spark ends: there is nobody to report to
        except Exception:
            log.exception("a progress report could not be used")

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's
        """The collector sees a query's end for itself."""
