"""What writing tasks for a store in etcd do, without Spark: rows in, as `validate` gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nexus.etcd import Client, Fence, TxnResult
from nexus.etcd.blocking import BlockingClient
from nexus.pipeline.sink.etcd_writer import Job, Taking, Wrote, write_rows
from nexus.pipeline.source.datasource import BatchReader
from nexus.pipeline.source.options import parse_options
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.store.etcd.documents import Known, known_from, latest_from
from nexus.store.etcd.layout import StoreLayout
from nexus.store.etcd.lock import EtcdWriterLock
from nexus.store.etcd.refused import refused_from
from nexus.store.etcd.rows import readings_from
from support.readings import NOON_US

COLUMNS = [
    *("kind", "timestamp", "series_a", "series_b", "context", "ingested", "value"),
    *("source_value", "partition", "offset", "row", "text"),
]


def judged(narrow: pa.Table) -> pa.Table:
    """Rows with `refusal`, where the narrow form itself says why."""
    place = [narrow.column(n).cast(pa.string()) for n in ("partition", "offset", "row")]
    refusal = pc.binary_join_element_wise(*place, narrow.column("fault"), " ")
    return narrow.select(COLUMNS).append_column("refusal", refusal)


def messages_of(queue: str, tasks: int = 1) -> list[pa.Table]:
    """What each task reads of a queue now, acknowledgements between."""
    options = {"queue": queue, "form": "narrow", "acks": "true", "tasks": str(tasks)}
    reader = BatchReader(parse_options(options))
    return [pa.Table.from_batches(list(reader.read(task))) for task in reader.partitions()]


def job_of(lock: EtcdWriterLock, queue: str = "", lead: Fence | None = None) -> Job:
    taking = None
    if queue:
        url = parse_queue_url(queue)
        assert isinstance(url, EtcdUrl)
        taking = Taking(url, lead)
    return Job(lock.store, lock.fence, "topic", NOON_US, taking)


def wrote(job: Job, rows: pa.Table) -> Wrote:
    """What a task says that it wrote."""
    [told] = write_rows(job)(judged(rows).to_batches())
    return Wrote(**told.to_pylist()[0])


class StoreView:
    """Everything that is in a store."""

    def __init__(self, etcd: BlockingClient, layout: StoreLayout) -> None:
        self._items = {
            item.key: item.value
            for keys in (layout.index, layout.clusters, layout.quarantine())
            for page in etcd.scan(keys)
            for item in page.items
        }

    def values(self, part: bytes) -> list[bytes]:
        return [value for key, value in self._items.items() if part in key]

    @property
    def readings(self) -> pa.Table:
        return readings_from(self.values(b"/data/"))

    @property
    def latest(self) -> pa.Table:
        return latest_from([v for k, v in self._items.items() if k.endswith(b"/latest")])

    @property
    def refused(self) -> pa.Table:
        return refused_from(self.values(b"/store.quarantine/"))

    @property
    def known(self) -> Known:
        found = known_from(
            [v for k, v in self._items.items() if b"/clusters/" not in k and b"/gpus/" in k]
        )
        people = [v for k, v in self._items.items() if k.endswith(b"/metadata")]
        assert set(people) <= set(self.values(b"/gpus/"))
        return found


def view_of(lock: EtcdWriterLock) -> StoreView:
    return StoreView(lock.client, lock.store.layout)


class Died(BaseException):
    """Raised in place of a death: nothing that was on its way is finished."""


@contextmanager
def dying(monkeypatch: Any, at: int, *, after: bool) -> Iterator[list[int]]:
    """The process dies at a transaction that writes: before it is sent, or before its answer."""
    seen = [0]
    real = Client.txn

    async def txn(self: Client, *, then: Sequence[Any] = (), **more: Any) -> TxnResult:
        writes = any(type(each).__name__ != "Get" for each in then)
        seen[0] += writes
        if writes and (seen[0] > at or (seen[0] == at and not after)):
            raise Died
        done = await real(self, then=then, **more)
        if writes and seen[0] == at:
            raise Died
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Client, "txn", txn)
        yield seen
