"""The condition of each GPU as faults change it, as columns over a block of ticks.

A GPU's condition is constant between two effects: a block is a few runs for each GPU.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Condition:
    """What faults have made of one GPU; a sound one has these defaults."""

    xid: int = 0  # the last error's code; it never clears
    corrected: int = 0
    uncorrected: int = 0
    remapped: int = 0
    replays: int = 0
    clock: int = 1_000  # thousandths of what it would be
    tensor: int = 1_000
    reasons: int = 0  # bits of clock event reasons
    heat_mc: int = 0  # where the temperature goes, in thousandths of a degree; 0: by power
    paused: int = 0  # its job does not run
    resets: int = 0
    silent: int = 0
    blank: int = 0
    generation: int = 0  # of the exporter's names


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of one GPU's condition at a time; None leaves a thing as it is."""

    time_ms: int
    xid: int | None = None
    clock: int | None = None
    tensor: int | None = None
    reasons: int | None = None
    heat_mc: int | None = None
    paused: int | None = None
    silent: int | None = None
    blank: int | None = None
    generation: int | None = None
    add_corrected: int = 0
    add_uncorrected: int = 0
    add_remapped: int = 0
    add_replays: int = 0
    reset: bool = False

    def on(self, condition: Condition) -> Condition:
        """The condition after this effect."""
        changed = {name: value for name in _SETS if (value := getattr(self, name)) is not None}
        after = replace(
            condition,
            corrected=condition.corrected + self.add_corrected,
            uncorrected=condition.uncorrected + self.add_uncorrected,
            remapped=condition.remapped + self.add_remapped,
            replays=condition.replays + self.add_replays,
            **changed,
        )
        return _after_reset(after) if self.reset else after


_SETS: Final = (
    "xid",
    "clock",
    "tensor",
    "reasons",
    "heat_mc",
    "paused",
    "silent",
    "blank",
    "generation",
)
_NAMES: Final = tuple(field.name for field in fields(Condition))
_VALUES: Final = attrgetter(*_NAMES)
SOUND: Final = Condition()


def _after_reset(condition: Condition) -> Condition:
    """Volatile counts begin at zero again; a remapped row stays remapped."""
    resets = condition.resets + 1
    return replace(condition, xid=0, corrected=0, uncorrected=0, replays=0, resets=resets)


@dataclass(frozen=True, slots=True)
class ConditionRuns:
    """A block's conditions: `columns` has a row for each distinct one, runs say where it holds.

    Runs of one GPU follow each other and fill the block; `changes` are the ticks (of the block)
    at which any GPU's condition becomes another.
    """

    columns: dict[str, pa.Array]
    rows: list[int]
    lengths: list[int]
    changes: set[int]


class Conditions:
    """Every GPU's condition now, and the effects that are still to come."""

    def __init__(self, gpus: int, interval_ms: int) -> None:
        self.now = [SOUND] * gpus
        self._interval_ms = interval_ms
        self._pending: list[list[tuple[int, int, Effect]]] = [[] for _ in range(gpus)]
        self._count = 0

    def add(self, effects: Iterable[tuple[int, Effect]]) -> None:
        """Take on effects that lie ahead; those of one time apply in the order they are given."""
        for gpu, effect in effects:
            self._count += 1
            heappush(self._pending[gpu], (effect.time_ms, self._count, effect))

    def advance(self, first: int, ticks: int) -> ConditionRuns:
        """The conditions of ticks first to first + ticks - 1; afterwards `now` is the last."""
        found: dict[Condition, int] = {SOUND: 0}
        rows: list[int] = []
        lengths: list[int] = []
        changes: set[int] = set()
        for gpu in range(len(self.now)):
            begun = 0
            for at, condition in self._steps(gpu, first, first + ticks):
                if at > begun:
                    rows.append(found.setdefault(self.now[gpu], len(found)))
                    lengths.append(at - begun)
                    begun = at
                self.now[gpu] = condition
                changes.add(at)
            rows.append(found.setdefault(self.now[gpu], len(found)))
            lengths.append(ticks - begun)
        values = zip(*map(_VALUES, found), strict=True)
        columns = {
            name: pa.array(column, pa.int64()) for name, column in zip(_NAMES, values, strict=True)
        }
        return ConditionRuns(columns, rows, lengths, changes)

    def _steps(self, gpu: int, first: int, end: int) -> list[tuple[int, Condition]]:
        """The changes of one GPU in a block: at which of its ticks, and to what."""
        pending = self._pending[gpu]
        steps: list[tuple[int, Condition]] = []
        condition = self.now[gpu]
        while pending and (tick := -(-pending[0][0] // self._interval_ms)) < end:
            condition = heappop(pending)[2].on(condition)
            steps.append((max(0, tick - first), condition))
        return steps
