"""Plans what a query reads: where it starts, how far a batch goes, which task reads what.

Asks the queue and keeps what it said last; the decisions are `planning`'s and `backlog`'s.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from nexus.pipeline.source.admission import admitted, looker
from nexus.pipeline.source.backlog import Backlog, Offsets, backlog, gone_fault, refuse_gone
from nexus.pipeline.source.options import SourceOptions
from nexus.pipeline.source.planning import Range, Weight, pack
from nexus.pipeline.source.start import BadStart, keep, kept, resolve
from nexus.queue.opening import open_reader
from nexus.queue.port import Bounds, Reader

# It looks at a few messages here and there: no need to fetch many ahead.
_FEW: Final = {"queued.max.messages.kbytes": 1024, "max.partition.fetch.bytes": 256 << 10}
_SHRANK_TRIES: Final = 5
_SHRANK_PAUSE_S: Final = 0.3
# Java is slow at what it does for the first time. So that something is seen soon all the same, the
# first batch is a small one, and each may be twice the one before.
_FIRST_READINGS: Final = 200_000

log = logging.getLogger(__name__)


class Planner:
    """Plans for one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader: Reader = open_reader(
            options.queue,
            client={**_FEW, **dict(options.client)},
            timeout_s=options.poll_timeout_s,
        )
        self._look = looker(self._reader)
        self._start: Offsets | None = None
        self._target: Offsets | None = None
        self._bounds: dict[int, Bounds] = {}
        self._weights: dict[int, Weight] = {}
        self._readings_max = _FIRST_READINGS

    def start(self) -> Offsets:
        """Where the query starts: the same whenever it is asked."""
        if self._start is None:
            found = kept(self._options.start_file)
            self._start = self._resolved_start() if found is None else found
        return self._start

    def end(self, start: Offsets) -> Offsets:
        """Where a batch read ends."""
        found = resolve(self._options.end, self._asked(), self._reader.offsets_at, name="end")
        return {p: max(offset, start.get(p, 0)) for p, offset in found.items()}

    def newest(self) -> Offsets:
        """The end of each partition, as the queue said last."""
        bounds = self._bounds or self._asked()
        return {partition: bound.end for partition, bound in bounds.items()}

    def stop_at_newest(self) -> None:
        """Go no further than what is there now."""
        self._asked()
        self._target = self.newest()

    def next_end(self, begin: Offsets, readings: int | None, *, unlimited: bool) -> Offsets:
        """How far the batch goes that begins here; as far as it began if there is nothing new."""
        left = self._left(begin)
        skipped = {gone.partition: gone.end for gone in left.gone}
        all_of_it = skipped | {r.partition: r.end for r in left.ranges}
        if unlimited or not left.ranges:
            return begin | all_of_it
        limits = self._options.limits
        wanted = min(limits.readings if readings is None else readings, self._readings_max)
        self._readings_max *= 2
        limits = replace(limits, readings=wanted)
        ends, weights = admitted(left.ranges, limits, self._look)
        self._weights |= weights
        # A new partition is not named before there is something of it to read.
        moved = {r.partition for r in left.ranges if ends[r.partition] > r.start}
        return begin | skipped | {partition: ends[partition] for partition in moved}

    def tasks(
        self, begin: Offsets, end: Offsets
    ) -> tuple[list[tuple[Range, ...]], tuple[Range, ...]]:
        """What each task reads, and what is gone."""
        end = self._wanted(end)
        if any(p not in self._bounds or self._bounds[p].end < last for p, last in end.items()):
            self._asked()
        found = backlog(begin, end, self._bounds)
        self._refuse_or_log(found.gone)
        return pack(found.ranges, self._options.tasks, self._weights), found.gone

    def close(self) -> None:
        self._reader.close()

    def _resolved_start(self) -> Offsets:
        found = resolve(self._options.start, self._asked(), self._reader.offsets_at, name="start")
        return found if self._options.start_file is None else keep(self._options.start_file, found)

    def _left(self, begin: Offsets) -> Backlog:
        """What is there past the beginning and, if there is one, before the target."""
        begin = self._wanted(begin)
        for _ in range(_SHRANK_TRIES):
            bounds = self._asked()
            if all(p in bounds and bounds[p].end >= offset for p, offset in begin.items()):
                break
            # A leader that has just changed may not know yet how far its partition goes.
            time.sleep(_SHRANK_PAUSE_S)
        end = self.newest()
        if self._target is not None:
            end = {p: min(offset, self._target.get(p, 0)) for p, offset in end.items()}
        end = begin | {p: max(offset, begin.get(p, 0)) for p, offset in end.items()}
        found = backlog(begin, end, bounds)
        if self._options.on_gone == "fail":
            refuse_gone(found.gone)
        return found

    def _asked(self) -> dict[int, Bounds]:
        """What the queue says now of the partitions that are wanted."""
        wanted = self._options.partitions
        self._bounds = {p: bound for p, bound in self._reader.bounds().items() if p in wanted}
        if not self._bounds:
            raise BadStart(f"queue {self._options.queue}: it has none of the partitions asked for")
        return self._bounds

    def _wanted(self, offsets: Mapping[int, int]) -> Offsets:
        return {p: offset for p, offset in offsets.items() if p in self._options.partitions}

    def _refuse_or_log(self, gone: Sequence[Range]) -> None:
        if self._options.on_gone == "fail":
            refuse_gone(gone)
        for one in gone:
            log.warning("partition %d: %s", one.partition, gone_fault(one))
