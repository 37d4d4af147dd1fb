"""One request's view of the store: every question is answered from the same snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from nexus.store.port import Page, Span
from nexus.store.postgres.asking import PostgresAsking, Ways
from nexus.store.postgres.contents import tables
from nexus.store.postgres.pinned import Pin
from nexus.store.postgres.pool import SnapshotGone
from nexus.store.postgres.refused import quarantine
from nexus.store.questions import fleet
from nexus.store.questions.snapshot import Answer, AskedSnapshot

RENEWALS: Final = 2  # for one question


class PostgresSnapshot(AskedSnapshot[PostgresAsking]):
    """A pinned state of the database; see `Snapshot` in the port.

    The last few states are held. Should this one be gone, the snapshot goes to the newest, and
    stays there.
    """

    def __init__(self, ways: Ways, pin: Pin) -> None:
        self._ways = ways
        self._pin = pin

    @property
    def versions(self) -> Mapping[str, int]:
        return self._pin.versions

    def gpus_named(self, prefix: str) -> list[str]:
        return self._of_pin(
            lambda pin: fleet.named(self._ways.texts.uuids(pin), prefix) if pin.id else []
        )

    def quarantine(self, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
        return self._of_pin(lambda pin: quarantine(self._ways.pins, pin, span, reasons, page))

    def tables(self) -> pa.Table:
        return self._of_pin(lambda pin: tables(self._ways.pins, pin))

    def _answer(self, question: Callable[[PostgresAsking], Answer]) -> Answer:
        return self._of_pin(lambda pin: question(PostgresAsking(self._ways, pin)))

    def _of_pin(self, question: Callable[[Pin], Answer]) -> Answer:
        for _ in range(RENEWALS):
            try:
                return question(self._pin)
            except SnapshotGone:
                self._pin = self._ways.pins.renewed()
        return question(self._pin)
