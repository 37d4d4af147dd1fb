"""Messages to blocks of readings: cut to a good size, decoded in columns, the bad ones counted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from nexus.gateway.live.columns import LIVE_SCHEMA, joined, live_columns
from nexus.gateway.live.metrics import LiveMetrics
from nexus.observe.logs import get_logger
from nexus.queue.port import Headers, Received
from nexus.telemetry.arrow_codec import MAX_READINGS
from nexus.telemetry.codec import decode_messages

PIECE_READINGS: Final = 10_000
PIECE_BYTES: Final = 4 << 20
log = get_logger(__name__)


def pieces(messages: Iterable[Received]) -> Iterator[list[Received]]:
    """The messages in pieces of about so many readings and bytes, one message at least."""
    piece: list[Received] = []
    readings = size = 0
    for message in messages:
        count = _count(message.headers)
        too_many = readings + count > PIECE_READINGS or size + len(message.value) > PIECE_BYTES
        if piece and too_many:
            yield piece
            piece, readings, size = [], 0, 0
        piece.append(message)
        readings, size = readings + count, size + len(message.value)
    if piece:
        yield piece


def table_of(messages: Sequence[Received], metrics: LiveMetrics) -> pa.Table:
    """The readings of the good messages (LIVE_SCHEMA). Never raises, whatever they hold."""
    try:
        return _decoded(messages, metrics)
    except Exception as error:  # noqa: BLE001 - one message must not end the stream of all others
        if len(messages) > 1:
            half = len(messages) // 2
            return joined([table_of(m, metrics) for m in (messages[:half], messages[half:])])
        log.warning("a message cannot be shown", offset=messages[0].offset, why=str(error)[:200])
        metrics.undecodable.inc()
        return LIVE_SCHEMA.empty_table()


def _decoded(messages: Sequence[Received], metrics: LiveMetrics) -> pa.Table:
    decoded = decode_messages(
        [m.value for m in messages], [_content_type(m.headers) for m in messages]
    )
    table = live_columns(decoded.table, time.time_ns() // 1000)
    metrics.messages.inc(len(messages))
    metrics.undecodable.inc(len(decoded.errors))
    metrics.readings.inc(table.num_rows)
    metrics.refused.inc(decoded.table.num_rows - table.num_rows)
    return table


# Most messages have the headers of the message before.
@lru_cache(maxsize=1_000)
def _content_type(headers: Headers) -> str | None:
    said = dict(headers).get("content-type")
    return None if said is None else said.decode(errors="replace")


@lru_cache(maxsize=1_000)
def _count(headers: Headers) -> int:
    """How many readings a message says it holds; one that says nothing holds one."""
    said = dict(headers).get("count", b"")
    return min(int(said), MAX_READINGS) if said.isdigit() and len(said) < 10 else 1
