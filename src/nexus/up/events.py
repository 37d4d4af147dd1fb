"""What the parts' supervisor hears, what it wants done, and what it wants told."""

from __future__ import annotations

from dataclasses import dataclass

# What happens


@dataclass(frozen=True, slots=True)
class Begin:
    """Start what can be started."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A part answers."""

    name: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A part's process is gone; a negative status is a signal, None one that never started."""

    name: str
    status: int | None


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody wants all of it to end; the second time at once."""


Event = Begin | Tick | Ready | Exited | Stop

# What is to be done


@dataclass(frozen=True, slots=True)
class Start:
    """Start a part's process."""

    name: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask a part to end."""

    name: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End a part without asking."""

    name: str


# What is to be told


@dataclass(frozen=True, slots=True)
class WasReady:
    """A part became ready, so long after its start; `again` if it had died before."""

    name: str
    seconds: float
    again: bool = False


@dataclass(frozen=True, slots=True)
class Slow:
    """A part is not ready yet, after so long."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Died:
    """A part ended by itself, for the n-th time in a row, and will be started again."""

    name: str
    status: int | None
    deaths: int
    again_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A part ended as it should: it was asked to, or its work is done."""

    name: str
    asked: bool


@dataclass(frozen=True, slots=True)
class Overdue:
    """A part did not end in its time."""

    name: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Every part was started once; those that are `down` are still seen to."""

    down: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopping:
    """The end has begun, and is over within so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Over:
    """Every part has ended."""


Deed = Start | Terminate | Kill
Notice = WasReady | Slow | Died | Ended | Overdue | Settled | Stopping | Over
Action = Deed | Notice
