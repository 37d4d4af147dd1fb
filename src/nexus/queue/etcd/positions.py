"""How far a reader has come in a queue: by revisions, and within a sweep by keys.

A slot is worked off in sweeps. A sweep takes all that was put up to one revision, in the order of
the keys, in as many batches as it needs; what is put meanwhile belongs to the next one. What lies
between two positions is therefore the same whenever it is asked for, whatever was put late, or
deleted, in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from nexus.queue.errors import QueueError
from nexus.queue.etcd.layout import Slot, slot_of

FLOOR: Final = "*"
QUEUE: Final = "queue"  # no slot's name: those have a slash


class Position(NamedTuple):
    """A place in one slot: all up to the revision `done`, and of a sweep the names up to `name`.

    A name is what a key has after its slot's path.
    """

    done: int
    sweep: int = 0  # 0 between two sweeps
    name: bytes = b""

    def has(self, name: bytes, revision: int) -> bool:
        """Whether a message lies before this place."""
        return revision <= self.done or (revision <= self.sweep and name <= self.name)

    @property
    def newest(self) -> int:
        """No message before this place was put after this revision."""
        return max(self.done, self.sweep)


class Window(NamedTuple):
    """Exactly the messages between two positions of one slot."""

    after: int  # revision, not included
    upto: int  # revision, included
    first: bytes = b""  # name, not included
    last: bytes | None = None  # name, included; None for all to the end

    def holds(self, revision: int) -> bool:
        """Whether a key in the range of names belongs to it."""
        return self.after < revision <= self.upto


class Backwards(QueueError):
    """Raised when a batch is asked for that would end before it begins."""


@dataclass(frozen=True, slots=True)
class Positions:
    """A place in a whole queue. What was put up to `floor` was there before, and is not ours.

    `queue` is the id of the queue that the revisions are of (see `identity`).
    """

    floor: int = 0
    slots: Mapping[Slot, Position] = field(default_factory=dict)
    queue: str = ""

    def of(self, slot: Slot) -> Position:
        return self.slots.get(slot, Position(self.floor))

    @property
    def newest(self) -> int:
        """The queue had this revision at least when it was read."""
        return max((p.newest for p in self.slots.values()), default=self.floor)

    def moved(self, slots: Mapping[Slot, Position]) -> Positions:
        return replace(self, slots={**self.slots, **slots})

    def to_json(self) -> dict[str, Any]:
        """In the same order each time, for Spark compares the text."""
        said = {str(slot): _said(self.slots[slot]) for slot in sorted(self.slots)}
        return {FLOOR: self.floor, QUEUE: self.queue, **said}


def positions_of(said: Mapping[str, Any]) -> Positions:
    """What `to_json` made."""
    try:
        slots = {slot_of(text): _heard(p) for text, p in said.items() if "/" in text}
        return Positions(int(said[FLOOR]), slots, str(said[QUEUE]))
    except (KeyError, TypeError, ValueError):
        raise QueueError(
            "the checkpoint is not of a queue in etcd; start again with a new checkpoint"
        ) from None


def window(begin: Position, end: Position) -> Window | None:
    """What lies between two positions of a slot; None if nothing can."""
    if end == begin:
        return None
    if begin.sweep:
        is_same = end.sweep == begin.sweep and end.done == begin.done and end.name >= begin.name
        if is_same or end == Position(begin.sweep):
            return Window(begin.done, begin.sweep, begin.name, end.name if end.sweep else None)
    elif end.sweep and end.done == begin.done:
        return Window(begin.done, end.sweep, b"", end.name)
    elif not end.sweep and end.done > begin.done:
        return Window(begin.done, end.done)
    raise Backwards(f"a batch from {begin} to {end} cannot be; start again with a new checkpoint")


def all_have(positions: Iterable[Position], name: bytes, revision: int) -> bool:
    """Whether a message lies before every one of these places."""
    return all(position.has(name, revision) for position in positions)


def _said(position: Position) -> list[int | str]:
    if not position.sweep:
        return [position.done]
    return [position.done, position.sweep, quote_from_bytes(position.name, safe=":")]


def _heard(said: list[Any]) -> Position:
    if len(said) == 1:
        return Position(int(said[0]))
    done, sweep, name = said
    return Position(int(done), int(sweep), unquote_to_bytes(name))
