"""One request's view of the store: every question is answered at the same revision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from nexus.lake.errors import StoreError
from nexus.store.errors import StoreAway
from nexus.store.etcd.asking import EtcdAsking
from nexus.store.etcd.contents import NAMES, Contents
from nexus.store.etcd.index import Index
from nexus.store.etcd.layout import StoreLayout
from nexus.store.etcd.quarantined import quarantine
from nexus.store.etcd.reading import RevisionGone
from nexus.store.port import ANY, GroupSteps, Page, Selection, Span
from nexus.store.questions import fleet, groups, newest, raw, rollups, summary

RENEWALS: Final = 3  # for one question
Answer = TypeVar("Answer")


class Ways(Protocol):
    """What a snapshot needs of its store."""

    layout: StoreLayout
    contents: Contents

    def asking(
        self, index: Index, metrics: tuple[str, ...], uuids: Collection[str] | None
    ) -> EtcdAsking:
        """A question's way to the store; about these GPUs alone, or about all."""

    def renewed(self) -> Index:
        """The newest revision, looked at anew."""


class EtcdSnapshot:
    """A pinned revision of etcd; see `Snapshot` in the port.

    etcd keeps revisions until they are compacted away, mostly for a minute. Should this one be
    gone, or what is remembered be of a later one, the snapshot goes to the newest, and stays there.
    """

    def __init__(self, ways: Ways, index: Index) -> None:
        self._ways = ways
        self._index = index

    @property
    def versions(self) -> Mapping[str, int]:
        return dict.fromkeys(NAMES, self._index.version) if self._index.exists else {}

    @property
    def revision(self) -> int:
        """The revision that is read."""
        return self._index.revision

    def gpus(self, which: Selection, states: tuple[str, ...], page: Page) -> pa.Table:
        return self._of_newest(which, lambda asking: fleet.gpus(asking, which, states, page))

    def gpu(self, uuid: str) -> pa.Table:
        return self._of_newest(Selection(uuids=(uuid,)), lambda asking: fleet.gpu(asking, uuid))

    def gpus_named(self, prefix: str) -> list[str]:
        return self._index.named(prefix)

    def readings(self, which: Selection, span: Span, page: Page) -> pa.Table:
        return self._of_readings(which, lambda asking: raw.readings(asking, which, span, page))

    def rollups(self, which: Selection, span: Span, step_s: int, page: Page) -> pa.Table:
        return self._of_readings(
            which, lambda asking: rollups.rollups(asking, which, span, step_s, page)
        )

    def groups(self, which: Selection, span: Span, steps: GroupSteps) -> pa.Table:
        return self._of_readings(which, lambda asking: groups.groups(asking, which, span, steps))

    def latest(self, which: Selection, page: Page, since_us: int | None = None) -> pa.Table:
        return self._of_newest(which, lambda asking: newest.latest(asking, which, page, since_us))

    def summary(self, which: Selection, span: Span, by: tuple[str, ...]) -> pa.Table:
        return self._of_readings(which, lambda asking: summary.summary(asking, which, span, by))

    def fleet(self, which: Selection, by: tuple[str, ...]) -> pa.Table:
        return self._of_newest(which, lambda asking: fleet.fleet(asking, which, by))

    def metrics(self, which: Selection) -> pa.Table:
        return self._of_newest(which, lambda asking: newest.metrics(asking, which))

    def quarantine(self, span: Span, reasons: tuple[str, ...], page: Page) -> pa.Table:
        layout = self._ways.layout
        return self._of_readings(
            ANY, lambda asking: quarantine(asking, layout, span, reasons, page)
        )

    def tables(self) -> pa.Table:
        return self._answer(self._ways.contents.tables)

    def _of_readings(self, which: Selection, question: Callable[[EtcdAsking], Answer]) -> Answer:
        """The answer to a question about readings of these metrics."""
        return self._answer(lambda index: question(self._ways.asking(index, which.metrics, None)))

    def _of_newest(self, which: Selection, question: Callable[[EtcdAsking], Answer]) -> Answer:
        """The answer to a question about what is known last of these GPUs."""

        def of_these(index: Index) -> Answer:
            narrow = which.uuids or which.clusters or which.hostnames
            uuids = index.paths(which).keys() if narrow else None
            return question(self._ways.asking(index, (), uuids))

        return self._answer(of_these)

    def _answer(self, question: Callable[[Index], Answer]) -> Answer:
        try:
            for _ in range(RENEWALS):
                try:
                    return question(self._index)
                except RevisionGone:
                    self._index = self._ways.renewed()
            return question(self._index)
        except StoreError as error:  # somebody else's value lies among those of the store
            raise StoreAway(str(error)) from error
