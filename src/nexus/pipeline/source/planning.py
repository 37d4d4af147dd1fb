"""What a batch reads, as decisions: how far each partition goes, and which task reads what.

Nothing here asks the queue. What messages weigh is an estimate from messages that were looked at;
whatever they weigh, a batch moves on by at least one message while there is any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from nexus.telemetry.arrow_codec import MAX_READINGS

# Of a batch, so much is dealt out evenly, so that a quiet partition is not held up by a busy one;
# the rest by backlog, so that the partitions stay about equally old.
EVEN_SHARE: Final = 0.25
TASK_READINGS: Final = 20_000  # less is not worth a task of its own

_MESSAGE_BYTES_MAX: Final = 1 << 20
_ROUNDING: Final = 1e-9


class Range(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `end`."""

    partition: int
    start: int
    end: int

    @property
    def messages(self) -> int:
        return self.end - self.start


class Weight(NamedTuple):
    """What a message holds, on average."""

    readings: float
    bytes: float


UNKNOWN: Final = Weight(1_000.0, 64_000.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may hold at most."""

    readings: int
    bytes: int
    messages: int

    def cost(self, weight: Weight) -> float:
        """What part of a batch one such message takes up."""
        return max(weight.readings / self.readings, weight.bytes / self.bytes, 1 / self.messages)

    def hold_any(self, messages: int) -> bool:
        """Whether so many messages are within the limits, however large they are."""
        return (
            messages * MAX_READINGS <= self.readings
            and messages * _MESSAGE_BYTES_MAX <= self.bytes
            and messages <= self.messages
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """What a partition's messages weigh along its offsets, from where it was looked at.

    Between two places a message weighs what the heavier of them does; past the last place, what
    that one does.
    """

    start: int
    seen: tuple[tuple[int, Weight], ...]  # by offset, the first at `start`

    def with_seen(self, offset: int, weight: Weight) -> Profile:
        """The same, having looked at one more place."""
        return Profile(self.start, tuple(sorted({**dict(self.seen), offset: weight}.items())))

    def at(self, offset: int) -> Weight:
        """The weight of a message."""
        place = bisect_right(self.seen, offset, key=lambda seen: seen[0]) - 1
        return self._segments_weight(max(place, 0))

    def _segments_weight(self, place: int) -> Weight:
        here = self.seen[place][1]
        if place + 1 == len(self.seen):
            return here
        return Weight(*map(max, here, self.seen[place + 1][1]))

    def segments(self, end: int) -> Iterator[tuple[int, Weight]]:
        """(messages, what each weighs), from the start up to an offset."""
        places = [offset for offset, _ in self.seen if offset < end]
        for place, (left, right) in enumerate(pairwise([*places, end])):
            yield right - left, self._segments_weight(place)

    def mean(self, end: int) -> Weight:
        """What a message up to an offset weighs on average."""
        count = max(end - self.start, 1)
        parts = list(self.segments(end))
        return Weight(
            sum(n * weight.readings for n, weight in parts) / count,
            sum(n * weight.bytes for n, weight in parts) / count,
        )

    def cost(self, end: int, limits: Limits) -> float:
        """What part of a batch the messages up to an offset take up."""
        return sum(count * limits.cost(weight) for count, weight in self.segments(end))

    def reach(self, end: int, budget: float, limits: Limits) -> int:
        """The last offset, up to `end`, to which the budget goes."""
        at = self.start
        for count, weight in self.segments(end):
            each = limits.cost(weight)
            if budget + _ROUNDING < count * each:
                return at + int((budget + _ROUNDING) / each)
            at, budget = at + count, budget - count * each
        return at


def profile(start: int, weight: Weight) -> Profile:
    """A partition that was looked at where it starts."""
    return Profile(start, ((start, weight),))


def admit(
    backlog: Sequence[Range], profiles: Mapping[int, Profile], limits: Limits
) -> dict[int, int]:
    """How far each partition goes in one batch that keeps to the limits: its end."""
    costs = {r.partition: profiles[r.partition].cost(r.end, limits) for r in backlog}
    shares = _shares(costs)
    ends = {
        r.partition: profiles[r.partition].reach(r.end, shares[r.partition], limits)
        for r in backlog
    }
    _fill_up(ends, backlog, profiles, limits)
    _move_on(ends, backlog)
    return ends


def _shares(costs: Mapping[int, float]) -> dict[int, float]:
    """The part of a batch that each partition may fill; 1 is shared out."""
    total = sum(costs.values())
    if total <= 1:
        return dict(costs)
    shares = _even(costs, EVEN_SHARE)
    left = {partition: cost - shares[partition] for partition, cost in costs.items()}
    scale = (1 - sum(shares.values())) / sum(left.values())
    return {partition: shares[partition] + left[partition] * scale for partition in costs}


def _even(costs: Mapping[int, float], budget: float) -> dict[int, float]:
    """The budget in equal parts; what one does not need goes to the others."""
    shares: dict[int, float] = {}
    for done, (partition, cost) in enumerate(sorted(costs.items(), key=lambda item: item[1])):
        shares[partition] = min(cost, budget / (len(costs) - done))
        budget -= shares[partition]
    return shares


def _fill_up(
    ends: dict[int, int],
    backlog: Sequence[Range],
    profiles: Mapping[int, Profile],
    limits: Limits,
) -> None:
    """Give what rounding left over: a message more where one fits, the least served first."""
    used = sum(profiles[r.partition].cost(ends[r.partition], limits) for r in backlog)
    for r in sorted(backlog, key=lambda r: (ends[r.partition] - r.start) / max(r.messages, 1)):
        if ends[r.partition] >= r.end:
            continue
        more = limits.cost(profiles[r.partition].at(ends[r.partition]))
        if used + more <= 1 + _ROUNDING:
            ends[r.partition] += 1
            used += more


def _move_on(ends: dict[int, int], backlog: Sequence[Range]) -> None:
    """One message at least, even if it is larger than a batch should be."""
    if any(ends[r.partition] > r.start for r in backlog):
        return
    longest = max(backlog, key=lambda r: r.messages, default=None)
    if longest is not None and longest.messages:
        ends[longest.partition] += 1


def pack(
    ranges: Sequence[Range], tasks: int, weights: Mapping[int, Weight] | None = None
) -> list[tuple[Range, ...]]:
    """The ranges in at most `tasks` parts of about equal work, in order; a long one is cut."""
    weights = weights or {}
    ranges = [r for r in ranges if r.messages > 0]
    each = {r.partition: max(weights.get(r.partition, UNKNOWN).readings, 1.0) for r in ranges}
    work = sum(r.messages * each[r.partition] for r in ranges)
    count = min(tasks, sum(r.messages for r in ranges), ceil(work / TASK_READINGS))
    return _cut(ranges, each, work / count) if ranges else []


def _cut(
    ranges: Sequence[Range], each: Mapping[int, float], target: float
) -> list[tuple[Range, ...]]:
    parts: list[list[Range]] = [[]]
    done = 0.0
    for partition, start, end in ranges:
        at = start
        while at < end:
            room = target * len(parts) - done
            fitting = max(round(room / each[partition]), 0)
            if not fitting:
                parts.append([])
                continue
            stop = min(at + fitting, end)
            parts[-1].append(Range(partition, at, stop))
            done += (stop - at) * each[partition]
            at = stop
    return [tuple(part) for part in parts if part]
