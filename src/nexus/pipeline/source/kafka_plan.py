"""Batches of a topic: places are offsets by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexus.pipeline.source.backlog import from_json, to_json
from nexus.pipeline.source.datasource import Task
from nexus.pipeline.source.kinds import Said, SourceTask
from nexus.pipeline.source.options import SourceOptions
from nexus.pipeline.source.planner import Planner
from nexus.pipeline.source.planning import Range


class KafkaPlan:
    """`Planner`, in the words of Spark."""

    def __init__(self, options: SourceOptions) -> None:
        self._planner = Planner(options)

    def start(self) -> Said:
        return dict(to_json(self._planner.start()))

    def end(self, start: Mapping[str, Any]) -> Said:
        return dict(to_json(self._planner.end(from_json(start))))

    def newest(self) -> Said:
        return dict(to_json(self._planner.newest()))

    def stop_at_newest(self) -> None:
        self._planner.stop_at_newest()

    def next_end(self, begin: Mapping[str, Any], readings: int | None, *, unlimited: bool) -> Said:
        end = self._planner.next_end(from_json(begin), readings, unlimited=unlimited)
        return dict(to_json(end))

    def tasks(self, begin: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[SourceTask]:
        return _tasks(*self._planner.tasks(from_json(begin), from_json(end)))

    def close(self) -> None:
        self._planner.close()


def _tasks(parts: Sequence[tuple[Range, ...]], gone: tuple[Range, ...]) -> list[SourceTask]:
    """A task for each part; the first also says what is gone."""
    if not parts:
        return [Task((), gone)] if gone else []
    return [Task(part, () if number else gone) for number, part in enumerate(parts)]
