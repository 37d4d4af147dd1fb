"""A snapshot whose questions are all asked in one way: what its kinds of stores share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import pyarrow as pa

from nexus.store.port import GroupSteps, Page, Selection, Span
from nexus.store.questions import fleet, groups, newest, raw, rollups, summary
from nexus.store.questions.asking import Asking

Answer = TypeVar("Answer")
A = TypeVar("A", bound=Asking)


class AskedSnapshot(ABC, Generic[A]):
    """See `Snapshot` in the port; a kind of store says how a question gets to its rows."""

    @abstractmethod
    def _answer(self, question: Callable[[A], Answer]) -> Answer:
        """The answer to a question at what is pinned."""

    def gpus(self, which: Selection, states: tuple[str, ...], page: Page) -> pa.Table:
        return self._answer(lambda asking: fleet.gpus(asking, which, states, page))

    def gpu(self, uuid: str) -> pa.Table:
        return self._answer(lambda asking: fleet.gpu(asking, uuid))

    def readings(self, which: Selection, span: Span, page: Page) -> pa.Table:
        return self._answer(lambda asking: raw.readings(asking, which, span, page))

    def rollups(self, which: Selection, span: Span, step_s: int, page: Page) -> pa.Table:
        return self._answer(lambda asking: rollups.rollups(asking, which, span, step_s, page))

    def groups(self, which: Selection, span: Span, steps: GroupSteps) -> pa.Table:
        return self._answer(lambda asking: groups.groups(asking, which, span, steps))

    def latest(self, which: Selection, page: Page, since_us: int | None = None) -> pa.Table:
        return self._answer(lambda asking: newest.latest(asking, which, page, since_us))

    def summary(self, which: Selection, span: Span, by: tuple[str, ...]) -> pa.Table:
        return self._answer(lambda asking: summary.summary(asking, which, span, by))

    def fleet(self, which: Selection, by: tuple[str, ...]) -> pa.Table:
        return self._answer(lambda asking: fleet.fleet(asking, which, by))

    def metrics(self, which: Selection) -> pa.Table:
        return self._answer(lambda asking: newest.metrics(asking, which))
