"""What a batch takes of a queue in etcd, as decisions: how far each slot goes, who reads what.

Nothing here asks etcd. How many readings a key holds is in its name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Final, NamedTuple

from nexus.queue.etcd.layout import Slot, readings_in
from nexus.queue.etcd.positions import Position, Window

# Of a batch, so much is dealt out evenly, so that a quiet slot is not held up by a busy one.
EVEN_SHARE: Final = 0.25
PIECE_READINGS: Final = 20_000  # less is not worth a task of its own
_ROUNDING: Final = 1e-6


class Found(NamedTuple):
    """A message's name in its slot, and how many readings it holds."""

    name: bytes
    readings: int


class Listing(NamedTuple):
    """The names of one window, in order; all of them, or those that were asked for."""

    found: tuple[Found, ...]
    is_whole: bool  # nothing is left of the window behind them


class Piece(NamedTuple):
    """What a task reads of one slot: a window, and about how much is in it."""

    slot: Slot
    window: Window
    keys: int
    readings: int


def found(name: bytes) -> Found:
    return Found(name, readings_in(name))


def shares(keys: Mapping[Slot, int], readings: int) -> dict[Slot, int]:
    """How many readings each slot may give to a batch of so many; at least one where it has any."""
    busy = {slot: count for slot, count in keys.items() if count}
    total = sum(busy.values())
    even = EVEN_SHARE * readings / max(len(busy), 1)
    rest = (1 - EVEN_SHARE) * readings
    return {slot: max(int(even + rest * count / total), 1) for slot, count in busy.items()}


def taken(found: Sequence[Found], readings: int) -> int:
    """How many keys fit into so many readings; one at least, even if it is larger."""
    total = 0
    for count, (_, size) in enumerate(found):
        total += size
        if total > readings:
            return max(count, 1)
    return len(found)


def cut(listing: Listing, keys: int) -> Listing:
    """The first so many of a listing."""
    if keys >= len(listing.found):
        return listing
    return Listing(listing.found[:keys], is_whole=False)


def reached(begin: Position, sweep: int, listing: Listing) -> Position:
    """Where a batch ends in a slot that takes these of a sweep up to that revision."""
    if listing.is_whole:
        # A sweep that was begun has to end; where nothing was begun, nothing happened.
        return Position(sweep) if listing.found or begin.sweep else begin
    return Position(begin.done, sweep, listing.found[-1].name)


def pieces(
    windows: Mapping[Slot, tuple[Window, Sequence[Found]]], tasks: int
) -> list[tuple[Piece, ...]]:
    """The windows in at most `tasks` parts of about equal work; a long one is cut."""
    work = sum(each.readings for _, names in windows.values() for each in names)
    keys = sum(len(names) for _, names in windows.values())
    target = work / max(min(tasks, keys, ceil(work / PIECE_READINGS)), 1)
    parts: list[list[Piece]] = [[]]
    done = 0.0
    for slot, (window, names) in windows.items():
        sums = list(accumulate((each.readings for each in names), initial=0))
        at = 0
        while at < len(names):
            if done + _ROUNDING >= target * len(parts):
                parts.append([])
            # The key that fills a part still belongs to it.
            full = sums[at] + target * len(parts) - done - _ROUNDING
            stop = min(bisect_left(sums, full, at + 1), len(names))
            own = _narrowed(window, names, at, stop)
            parts[-1].append(Piece(slot, own, stop - at, sums[stop] - sums[at]))
            done += sums[stop] - sums[at]
            at = stop
    return [tuple(part) for part in parts if part]


def _narrowed(window: Window, names: Sequence[Found], at: int, stop: int) -> Window:
    """The window of some of the names, one after the other."""
    first = names[at - 1].name if at else window.first
    last = names[stop - 1].name if stop < len(names) else window.last
    return Window(window.after, window.upto, first, last)
