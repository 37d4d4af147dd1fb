"""What a task does: fetch its messages, decode them in columns, and hand them on.

Runs in Spark's Python workers, which live for many tasks: a connection is kept for the next. A
message that cannot be decoded becomes a row that says why, and costs no other message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.pipeline.source.backlog import gone_fault, refuse_gone
from nexus.pipeline.source.forms import Placed, Refused, Shape, shape
from nexus.pipeline.source.messages import Group, grouped
from nexus.pipeline.source.options import SourceOptions
from nexus.pipeline.source.planning import Range
from nexus.queue.errors import OffsetsGone
from nexus.queue.opening import open_reader
from nexus.queue.port import Batch, Reader
from nexus.telemetry.codec import Decoded, MessageError, decode_messages
from nexus.telemetry.normalise import normalise

_REFUSED_MAX: Final = 1_000  # rows of raw messages in one batch

# Readers that nobody uses now, by what they were opened with.
_idle: dict[tuple[object, ...], Reader] = {}


def fetch(
    ranges: Sequence[Range], gone: Sequence[Range], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The batches of one task: what its ranges hold, then a row for each gap."""
    form = shape(options.form, options.topic)
    lost = list(gone)
    for group in grouped(_messages(ranges, lost, options)):
        yield from batches(group, form)
    if lost:
        yield form.refused([Refused(r.partition, r.start, gone_fault(r)) for r in lost])


def batches(group: Group, form: Shape) -> Iterator[pa.RecordBatch]:
    """The rows of some messages: their readings, and the messages that gave none."""
    decoded = decode_messages(group.values, group.content_types)
    if decoded.table.num_rows:
        yield from form.readings(_placed(decoded, group))
    for start in range(0, len(decoded.errors), _REFUSED_MAX):
        errors = decoded.errors[start : start + _REFUSED_MAX]
        yield form.refused([_unreadable(error, group) for error in errors])


def _placed(decoded: Decoded, group: Group) -> Placed:
    origin = decoded.origin
    types = pa.array(group.content_types, pa.string()).dictionary_encode()
    return Placed(
        normalise(decoded.table),
        pa.array(group.partitions, pa.int32()).take(origin),
        pa.array(group.offsets, pa.int64()).take(origin),
        _number_in_message(origin),
        types.take(origin),
    )


def _number_in_message(origin: pa.Array) -> pa.Array:
    """For each reading, how many of its message come before it."""
    ends = pc.run_end_encode(origin).run_ends
    starts = pa.concat_arrays([pa.array([0], ends.type), ends[:-1]])
    first = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, starts))
    return pc.subtract(pa.arange(0, len(origin)).cast(pa.int32()), first.cast(pa.int32()))


def _messages(
    ranges: Sequence[Range], lost: list[Range], options: SourceOptions
) -> Iterator[tuple[int, Batch]]:
    """The messages of all ranges; what turns out to be gone is added to `lost`, if it may be."""
    key = (options.queue, options.client, options.poll_timeout_s)
    # Taken out while it is in use: one that broke, or was left in the middle, does not come back.
    reader = _idle.pop(key, None) or open_reader(
        options.queue, client=dict(options.client), timeout_s=options.poll_timeout_s
    )
    try:
        for one in ranges:
            yield from ((one.partition, batch) for batch in _range(reader, one, lost, options))
    except BaseException:
        reader.close()
        raise
    _idle[key] = reader


def _range(
    reader: Reader, wanted: Range, lost: list[Range], options: SourceOptions
) -> Iterator[Batch]:
    partition, start, end = wanted
    while start < end:
        try:
            for batch in reader.read(partition, start, end):
                yield batch
                start = batch.offsets()[-1] + 1
            return
        except OffsetsGone as error:
            first = min(max(error.first, start + 1), end)
            missed = Range(partition, start, first)
            if options.on_gone == "fail":
                refuse_gone([missed])
            lost.append(missed)
            start = first


def _unreadable(error: MessageError, group: Group) -> Refused:
    at = error.index
    return Refused(
        group.partitions[at],
        group.offsets[at],
        error.reason,
        group.values[at] or b"",
        group.content_types[at],
    )
