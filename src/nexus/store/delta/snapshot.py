"""One request's view of the store: every question is answered from the same versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from nexus.lake.url import StoreUrl
from nexus.store.delta import contents, refused
from nexus.store.delta.asking import DeltaAsking
from nexus.store.delta.folding import Folds
from nexus.store.delta.following import Pins
from nexus.store.port import Page, Span
from nexus.store.questions import fleet
from nexus.store.questions.database import FilesGone
from nexus.store.questions.snapshot import Answer, AskedSnapshot


class DeltaSnapshot(AskedSnapshot[DeltaAsking]):
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

    def gpus_named(self, prefix: str) -> list[str]:
        return self._answer(lambda asking: fleet.named(asking.known().uuids(), prefix))

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
