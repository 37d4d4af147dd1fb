"""One request's view of the store: every question is answered from the same versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pyarrow as pa

from nexus.lake.url import StoreUrl
from nexus.store.delta import contents, refused
from nexus.store.delta.asking import DeltaAsking
from nexus.store.delta.folding import Folds
from nexus.store.delta.following import Pins
from nexus.store.port import GroupSteps, Page, Selection, Span
from nexus.store.questions import fleet, groups, newest, raw, rollups, summary
from nexus.store.questions.database import FilesGone

Answer = TypeVar("Answer")


class DeltaSnapshot:
    """Pinned versions of all tables; see `Snapshot` in the port.

    Files of old versions are kept for hours. Should one be gone all the same, the snapshot goes
    to the newest versions, once, and stays there.
    """

    def __init__(
        self, store: StoreUrl, asking: DeltaAsking, renewed: Callable[[], DeltaAsking]
    ) -> None:
        self._store = store
        self._asking = asking
        self._renewed = renewed

    @property
    def versions(self) -> Mapping[str, int]:
        return {name: table.version for name, table in self._asking.pins.tables.items()}

    @property
    def pins(self) -> Pins:
        """What is pinned."""
        return self._asking.pins

    @property
    def folds(self) -> Folds:
        """What is read in the place of small files."""
        return self._asking.folds

    def gpus(self, which: Selection, states: tuple[str, ...], page: Page) -> pa.Table:
        return self._answer(lambda asking: fleet.gpus(asking, which, states, page))

    def gpu(self, uuid: str) -> pa.Table:
        return self._answer(lambda asking: fleet.gpu(asking, uuid))

    def gpus_named(self, prefix: str) -> list[str]:
        return self._answer(lambda asking: fleet.named(asking.known().uuids(), prefix))

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

    def quarantine(self, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
        return self._answer(lambda asking: refused.quarantine(asking, span, reasons, page))

    def tables(self) -> pa.Table:
        return self._answer(lambda asking: contents.tables(asking, self._store))

    def _answer(self, question: Callable[[DeltaAsking], Answer]) -> Answer:
        try:
            return question(self._asking)
        except FilesGone:
            self._asking = self._renewed()
            return question(self._asking)
