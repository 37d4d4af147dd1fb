"""One request's view of the store: what is the case, and rows as they are when they are read.

InfluxDB has no snapshots. Which rows there are to be read is pinned, by hours and rollups; rows of
a batch that is just being stored may already be among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from nexus.lake.errors import StoreError
from nexus.store.errors import StoreAway, TooMuch
from nexus.store.influx.asking import InfluxAsking, Ways
from nexus.store.influx.contents import tables
from nexus.store.influx.journal import State
from nexus.store.influx.refused import quarantine
from nexus.store.influx.talking import TooSlow
from nexus.store.port import Page, Span
from nexus.store.questions import fleet
from nexus.store.questions.snapshot import Answer, AskedSnapshot


class InfluxSnapshot(AskedSnapshot[InfluxAsking]):
    """A state of the store; see `Snapshot` in the port."""

    def __init__(self, ways: Ways, state: State) -> None:
        self._ways = ways
        self._state = state

    @property
    def versions(self) -> Mapping[str, int]:
        return self._state.versions

    def gpus_named(self, prefix: str) -> list[str]:
        return self._answer(lambda asking: fleet.named(_uuids(asking), prefix))

    def quarantine(self, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
        influx, database = self._ways.reader.influx, self._ways.database
        version = self._state.versions.get("quarantine", 0)
        return self._answer(
            lambda _: quarantine(influx, database, span, reasons, page, is_there=version > 0)
        )

    def tables(self) -> pa.Table:
        return self._answer(lambda asking: tables(self._ways, asking.state))

    def _answer(self, question: Callable[[InfluxAsking], Answer]) -> Answer:
        try:
            return question(InfluxAsking(self._ways, self._state))
        except TooSlow as error:
            raise TooMuch("this took too long: ask for less time or fewer series") from error
        except StoreError as error:
            raise StoreAway(str(error)) from error


def _uuids(asking: InfluxAsking) -> list[str]:
    """Those of all GPUs, in order."""
    found: list[str] = asking.known().devices().column("uuid").to_pylist()
    return sorted(set(found))
