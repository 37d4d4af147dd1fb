"""Batches of a queue in etcd: places are revisions, and keys within a sweep.

Asks etcd for names only, and never for an old revision; the decisions are `queue.etcd.planning`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from nexus.etcd import Get, Keys
from nexus.etcd.blocking import BlockingClient
from nexus.pipeline.source.kinds import Said, SourceTask
from nexus.pipeline.source.options import At, SourceOptions
from nexus.pipeline.source.start import BadStart, keep_said, kept_said
from nexus.queue.etcd.counts import depths
from nexus.queue.etcd.doorbell import Doorbell
from nexus.queue.etcd.faults import as_queue_errors
from nexus.queue.etcd.identity import identity, refuse_another
from nexus.queue.etcd.layout import Slot, timestamp_ns_of
from nexus.queue.etcd.planning import Found, Listing, Piece, cut, pieces, reached, shares, taken
from nexus.queue.etcd.positions import Position, Positions, Window, positions_of, window
from nexus.queue.etcd.reading import listed, names_in
from nexus.queue.etcd.slots import known_slots
from nexus.queue.url import EtcdUrl, parse_queue_url

POLL_S: Final = 5.0  # what others put without ringing is found within this time
# Java is slow at what it does for the first time: a small batch first, then twice as much each.
_FIRST_READINGS: Final = 200_000
_NO_END: Final = float("inf")


@dataclass(frozen=True)
class EtcdTask(SourceTask):
    """What one task reads of a queue in etcd."""

    pieces: tuple[Piece, ...]

    def read(self, options: SourceOptions) -> Iterator[pa.RecordBatch]:
        from nexus.pipeline.source.etcd_fetching import fetch  # noqa: PLC0415 - workers only

        return fetch(self.pieces, options)


class _Planned(NamedTuple):
    """The names of the last batch that was planned, so that nobody has to list them again."""

    begin: Positions
    end: Positions
    names: Mapping[Slot, Sequence[Found]]


class EtcdPlan:
    """Plans for one query."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._url = cast(EtcdUrl, parse_queue_url(options.queue))
        self._layout = self._url.layout
        self._clock = clock
        config = self._url.address.config()
        timeout_s = min(config.timeout_s, options.poll_timeout_s)
        self._etcd = BlockingClient(replace(config, timeout_s=timeout_s))
        self._bell = Doorbell(self._etcd, self._layout)
        self._has_bell = False
        self._start: Positions | None = None
        self._target: int | None = None
        self._last = Positions()
        self._quiet: Positions | None = None  # nothing was found behind this place
        self._looked_at = 0.0
        self._planned: _Planned | None = None
        self._readings_max = _FIRST_READINGS

    def start(self) -> Said:
        if self._start is None:
            said = kept_said(self._options.start_file)
            self._start = self._resolved_start() if said is None else positions_of(said)
        return self._start.to_json()

    def end(self, start: Mapping[str, Any]) -> Said:
        begin = positions_of(start)
        with as_queue_errors(self._url):
            upto = self._revision_of(self._options.end)
            slots = self._slots()
        ends = {slot: Position(upto) for slot in slots if begin.of(slot).newest < upto}
        return begin.moved(ends).to_json()

    def newest(self) -> Said:
        return self._last.to_json()

    def stop_at_newest(self) -> None:
        with as_queue_errors(self._url):
            self._target = self._revision()

    def next_end(self, begin: Mapping[str, Any], readings: int | None, *, unlimited: bool) -> Said:
        here = positions_of(begin)
        with as_queue_errors(self._url):
            end = self._next_end(here, readings, unlimited)
            if end == here and self._options.wait_s and self._target is None:
                end = self._waited(here, readings)
        self._last = end
        return end.to_json()

    def tasks(self, begin: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[SourceTask]:
        first, last = positions_of(begin), positions_of(end)
        with as_queue_errors(self._url):
            refuse_another(self._layout, self._identity(), self._revision(), last)
            windows = {
                slot: (between, self._names(slot, between, first, last))
                for slot in sorted(last.slots)
                if self._is_ours(slot)
                and (between := window(first.of(slot), last.of(slot))) is not None
            }
        return [EtcdTask(part) for part in pieces(windows, self._options.tasks)]

    def close(self) -> None:
        self._bell.stop()
        self._etcd.close()

    # Where a query starts

    def _resolved_start(self) -> Positions:
        with as_queue_errors(self._url):
            found = Positions(self._revision_of(self._options.start), queue=self._identity())
        path = self._options.start_file
        return found if path is None else positions_of(keep_said(path, found.to_json()))

    def _revision_of(self, at: At) -> int:
        """The last revision before the place that an option means."""
        if at.offsets:
            raise BadStart("a queue in etcd has no offsets: say earliest, latest or a time")
        if at.edge == "earliest":
            return 0
        newest = self._revision()
        return newest if at.moment_ms is None else self._before(at.moment_ms, newest)

    def _before(self, moment_ms: int, newest: int) -> int:
        """The last revision before the first message of that time or later, by the keys' times."""
        first = newest + 1
        for slot in self._slots():
            path = self._layout.slot(slot)
            since = Keys(path.start + str(moment_ms * 1_000_000).encode(), path.end)
            for page in self._etcd.scan(Get(since, keys_only=True)):
                found = [i.mod_revision for i in page.items if timestamp_ns_of(i.key) is not None]
                first = min(first, *found) if found else first
        return first - 1

    # How far a batch goes

    def _next_end(self, here: Positions, readings: int | None, unlimited: bool) -> Positions:
        if self._is_known_to_be_quiet(here):
            return here
        self._bell.clear()
        self._looked_at = self._clock()
        end = self._planned_end(here, self._budget(readings, unlimited))
        self._quiet = here if end == here else None
        return end

    def _is_known_to_be_quiet(self, here: Positions) -> bool:
        if not self._options.wait_s or self._quiet != here or not self._bell.works:
            return False
        return not self._bell.rung and self._clock() - self._looked_at < self._poll_s

    @property
    def _poll_s(self) -> float:
        return min(POLL_S, self._options.poll_timeout_s)

    def _waited(self, here: Positions, readings: int | None) -> Positions:
        """The end of a batch that the doorbell brings, if it does."""
        if not self._has_bell:
            self._bell.start()
            self._has_bell = True
        self._bell.wait(self._options.wait_s)
        return self._next_end(here, readings, unlimited=False)

    def _budget(self, readings: int | None, unlimited: bool) -> float:
        if unlimited:
            return _NO_END
        limits = self._options.limits
        wanted = limits.readings if readings is None else readings
        return min(wanted, self._readings_max)

    def _planned_end(self, here: Positions, budget: float) -> Positions:
        newest = self._revision()
        refuse_another(self._layout, self._identity(), newest, here)
        upto = newest if self._target is None else min(newest, self._target)
        slots = self._slots()
        waiting = {d.slot: d.keys for d in self._etcd.run(lambda c: depths(c, self._layout, slots))}
        begun = {slot: 1 for slot in slots if here.of(slot).sweep and not waiting[slot]}
        may = shares(waiting | begun, 1 << 62 if budget == _NO_END else int(budget))
        found = {
            slot: self._listed(slot, here.of(slot), upto, readings)
            for slot, readings in may.items()
            if here.of(slot).sweep or here.of(slot).done < upto
        }
        found = found if budget == _NO_END else self._within_bytes(found)
        ends = {
            slot: reached(here.of(slot), here.of(slot).sweep or upto, listing)
            for slot, listing in found.items()
        }
        moved = {slot: end for slot, end in ends.items() if end != here.of(slot)}
        end = here.moved(moved) if moved else here
        if moved:
            self._readings_max *= 2
        self._planned = _Planned(here, end, {slot: found[slot].found for slot in moved})
        return end

    def _listed(self, slot: Slot, here: Position, upto: int, readings: int) -> Listing:
        """What a slot gives to a batch that may take so many readings of it."""
        rest = Window(here.done, here.sweep or upto, here.name)
        names = listed(self._etcd, self._layout, slot, rest, readings)
        return cut(names, min(taken(names.found, readings), self._options.limits.messages))

    def _within_bytes(self, found: Mapping[Slot, Listing]) -> dict[Slot, Listing]:
        """As much of it as a batch may hold in bytes, as far as one message of each slot tells."""
        sizes = {slot: self._bytes(slot, listing) for slot, listing in found.items()}
        share = self._options.limits.bytes / max(sum(sizes.values()), 1)
        if share >= 1:
            return dict(found)
        return {s: cut(each, max(int(len(each.found) * share), 1)) for s, each in found.items()}

    def _bytes(self, slot: Slot, listing: Listing) -> int:
        """About how many bytes these messages have, as the last one of them tells."""
        if not listing.found:
            return 0
        last = self._etcd.get(self._layout.slot(slot).start + listing.found[-1].name)
        size = 0 if last is None else len(last.value) // listing.found[-1].readings
        return size * sum(each.readings for each in listing.found)

    # What there is

    def _names(
        self, slot: Slot, between: Window, begin: Positions, end: Positions
    ) -> Sequence[Found]:
        known = self._planned
        if known is not None and (known.begin, known.end) == (begin, end):
            return known.names.get(slot, ())
        pages = names_in(self._etcd, self._layout, slot, between)
        return [each for page in pages for each in page]

    def _slots(self) -> list[Slot]:
        known = self._etcd.run(lambda client: known_slots(client, self._layout))
        return [slot for slot in known if self._is_ours(slot)]

    def _is_ours(self, slot: Slot) -> bool:
        return slot.partition in self._options.partitions

    def _identity(self) -> str:
        return self._etcd.run(lambda client: identity(client, self._layout))

    def _revision(self) -> int:
        """The newest revision there is."""
        config = Keys(self._layout.meta("config"))
        return self._etcd.range(Get(config, count_only=True)).revision
