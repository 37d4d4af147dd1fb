"""What a task does with a queue in etcd: read its pieces, decode them in columns, hand them on.

Runs in Spark's Python workers, which live for many tasks: a client is kept for the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, cast

import pyarrow as pa

from nexus.etcd import KeyValue
from nexus.etcd.blocking import BlockingClient
from nexus.pipeline.narrow import acknowledgement
from nexus.pipeline.source.fetching import batches
from nexus.pipeline.source.forms import Refused, Shape, shape
from nexus.pipeline.source.messages import grouped
from nexus.pipeline.source.options import SourceOptions
from nexus.queue.etcd.faults import as_queue_errors
from nexus.queue.etcd.layout import readings_in
from nexus.queue.etcd.planning import Piece
from nexus.queue.etcd.reading import Page, Unreadable, messages_of, pages_of
from nexus.queue.port import Batch
from nexus.queue.url import EtcdUrl, parse_queue_url

ACK_READINGS: Final = 1_000  # in a chunk that is acknowledged at once

# One client for each queue; safe to share, and of no use in another process.
_clients: dict[str, BlockingClient] = {}


def fetch(pieces: Sequence[Piece], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The batches of one task."""
    url = cast(EtcdUrl, parse_queue_url(options.queue))
    form = shape(options.form, options.topic)
    with as_queue_errors(url):
        pages = pages_of(_client(url), url.layout, pieces)
        if options.acks:
            for page in pages:
                for chunk in chunks(page):
                    yield from _rows([chunk], form)
                    yield _acknowledged(chunk)
        else:
            yield from _rows(pages, form)


def chunks(page: Page, readings: int = ACK_READINGS) -> Iterator[Page]:
    """A page in parts of about so many readings; one message at least."""
    items: list[KeyValue] = []
    total = 0
    for item in page.items:
        size = readings_in(item.key)
        if items and total + size > readings:
            yield page._replace(items=tuple(items))
            items, total = [], 0
        items.append(item)
        total += size
    yield page._replace(items=tuple(items))


def _rows(pages: Iterator[Page] | Sequence[Page], form: Shape) -> Iterator[pa.RecordBatch]:
    unreadable: list[Unreadable] = []
    for group in grouped(_messages(pages, unreadable)):
        yield from batches(group, form)
        yield from _refused(unreadable, form)
    yield from _refused(unreadable, form)


def _messages(
    pages: Iterator[Page] | Sequence[Page], unreadable: list[Unreadable]
) -> Iterator[tuple[int, Batch]]:
    for page in pages:
        found, faults = messages_of(page)
        unreadable += faults
        yield from ((page.slot.partition, batch) for batch in found)


def _refused(unreadable: list[Unreadable], form: Shape) -> Iterator[pa.RecordBatch]:
    """Rows for the values that held no message; the list is empty after."""
    if unreadable:
        refused = [Refused(u.partition, u.revision, u.reason, u.value) for u in unreadable]
        unreadable.clear()
        yield form.refused(refused)


def _acknowledged(chunk: Page) -> pa.RecordBatch:
    said = {
        "slot": str(chunk.slot),
        "keys": [item.key.decode(errors="surrogateescape") for item in chunk.items],
        "revision": chunk.revision,
    }
    return acknowledgement(chunk.slot.partition, chunk.revision, json.dumps(said).encode())


def _client(url: EtcdUrl) -> BlockingClient:
    address = str(url.address)
    if address not in _clients:
        _clients[address] = BlockingClient(url.address.config())
    return _clients[address]
