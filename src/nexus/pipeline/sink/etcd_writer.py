"""What a task does with its share of a batch for a store in etcd.

Of each portion of rows the documents of its GPUs are written first, then its readings and what was
refused: a task that dies between leaves documents that are a little ahead of readings which come
again, never readings that no document knows of. With acknowledgements, each chunk of readings is
stored and its messages are taken out of the queue at once (see `etcd_acks`).
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from nexus.etcd import Client, Fence
from nexus.etcd.blocking import BlockingClient
from nexus.pipeline.sink.etcd_acks import Taker
from nexus.pipeline.sink.etcd_chunks import Chunk, Chunker, Portion, gathered
from nexus.pipeline.sink.etcd_documents import keep_documents, news_of
from nexus.queue.etcd.counts import Tally
from nexus.queue.url import EtcdUrl
from nexus.store.etcd.faults import as_store_errors
from nexus.store.etcd.url import EtcdStoreUrl
from nexus.store.etcd.writing import LANES, in_lanes, put_many

WROTE_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.int64()) for name in ("readings", "copies", "refused")]
)
WROTE_DDL: Final = "readings long, copies long, refused long"

# Of this process, which lives for many tasks, one after the other.
_clients: dict[str, BlockingClient] = {}
_tallies: dict[tuple[str, int], Tally] = {}


@dataclass(frozen=True, slots=True)
class Taking:
    """A queue whose messages are taken out as they are stored, and the token of who leads it."""

    queue: EtcdUrl
    fence: Fence | None


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of a batch is told."""

    store: EtcdStoreUrl
    fence: Fence
    origin: str
    refused_us: int  # the same when the batch is played again
    taking: Taking | None = None


class Wrote(NamedTuple):
    """What a task, or a batch, came to."""

    readings: int = 0  # that are new
    copies: int = 0
    refused: int = 0

    def plus(self, other: Wrote) -> Wrote:
        return Wrote(*(one + two for one, two in zip(self, other, strict=True)))


def write_rows(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark runs in each writing task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        has_acks = job.taking is not None
        chunker = Chunker(job.store.layout, job.origin, job.refused_us, has_acks)
        wrote = Wrote()
        with as_store_errors(job.store):
            client = _client(job.store)
            for rows in gathered(batches, has_acks=has_acks):
                storing = partial(_store, job=job, portion=chunker.portion(rows))
                wrote = wrote.plus(client.run(storing))
        yield pa.RecordBatch.from_pylist([wrote._asdict()], schema=WROTE_SCHEMA)

    return run


async def _store(client: Client, job: Job, portion: Portion) -> Wrote:
    if portion.readings.num_rows:
        news = news_of(portion.readings)
        await keep_documents(client, job.fence, job.store.layout, news)
    if job.taking is None:
        found = [await _put(client, job.fence, chunk) for chunk in portion.chunks]
    else:
        lanes = [portion.chunks[lane::LANES] for lane in range(LANES)]
        taking = (_take(client, job, lane, chunks) for lane, chunks in enumerate(lanes))
        found = await in_lanes(taking)
    return _sum(found)


async def _put(client: Client, fence: Fence, chunk: Chunk) -> Wrote:
    told = await put_many(client, fence, chunk.readings)
    await put_many(client, fence, chunk.refused)
    return Wrote(told.new, told.there + chunk.copies, len(chunk.refused))


async def _take(client: Client, job: Job, lane: int, chunks: Sequence[Chunk]) -> Wrote:
    """Chunks one after the other: a lane has a count of its own."""
    assert job.taking is not None
    taker = Taker(client, job.fence, job.taking.fence, _tally(job.taking.queue, lane))
    wrote = Wrote()
    for chunk in chunks:
        assert chunk.ack is not None
        told = await taker.take([*chunk.readings, *chunk.refused], chunk.ack)
        new = max(told.new - len(chunk.refused), 0)
        copies = len(chunk.readings) - new + chunk.copies
        wrote = wrote.plus(Wrote(new, copies, len(chunk.refused)))
    return wrote


def _sum(found: Iterable[Wrote]) -> Wrote:
    whole = Wrote()
    for each in found:
        whole = whole.plus(each)
    return whole


def _client(store: EtcdStoreUrl) -> BlockingClient:
    address = str(store.address)
    if address not in _clients:
        _clients[address] = BlockingClient(store.address.config())
    return _clients[address]


def _tally(queue: EtcdUrl, lane: int) -> Tally:
    """How much this process took out of a queue in this lane."""
    known = _tallies.get((str(queue), lane))
    if known is None:
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}-{lane}"
        known = _tallies[str(queue), lane] = Tally(queue.layout.meta("taken", name), name)
    return known
