"""When each part is started, started again and stopped: events in, actions out.

Pure: the clock is an argument, processes are someone else's. A part that keeps dying is tried
ever more rarely and never stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from nexus.up.events import (
    Action,
    Begin,
    Died,
    Ended,
    Event,
    Exited,
    Kill,
    Over,
    Overdue,
    Ready,
    Settled,
    Slow,
    Start,
    Stop,
    Stopping,
    Terminate,
    Tick,
    WasReady,
)

HURRIED_S: Final = 3.0  # what the last part has left after a second Ctrl-C


class Phase(Enum):
    """Where a part is in its life."""

    HELD = "waiting"  # for the parts that it needs
    STARTING = "starting"
    READY = "ready"
    RESTING = "resting"  # it died, and is started again when its time comes
    STOPPING = "stopping"
    ENDED = "ended"


ALIVE: Final = (Phase.STARTING, Phase.READY, Phase.STOPPING)


@dataclass(frozen=True, slots=True)
class Part:
    """What decides about one part.

    `stop_by` is the share of the time for stopping after which it must have ended; parts with a
    smaller one are stopped first.
    """

    name: str
    needs: tuple[str, ...] = ()
    stop_by: float = 1.0
    may_end: bool = False  # exit status 0 is its end, not its death


@dataclass(frozen=True, slots=True)
class Rules:
    """How patient to be, in seconds."""

    restart_s: float = 0.5
    restart_max_s: float = 30.0
    steady_s: float = 60.0  # ready for so long, earlier deaths are forgotten
    slow_s: float = 45.0  # a start that takes longer is told
    stop_s: float = 14.0

    def delay_s(self, deaths: int) -> float:
        """How long to wait after so many deaths in a row."""
        return float(min(self.restart_max_s, self.restart_s * 2 ** min(deaths - 1, 30)))


@dataclass(frozen=True, slots=True)
class Life:
    """One part's story so far."""

    phase: Phase = Phase.HELD
    since: float = 0.0
    due: float | None = None  # when something must be done if nothing happens
    deaths: int = 0  # in a row
    restarts: int = 0
    ready_s: float | None = None  # how long the first start took
    overdue: bool = False  # it had to be killed


@dataclass(frozen=True, slots=True)
class House:
    """All parts and where they are."""

    parts: Mapping[str, Part]
    rules: Rules = Rules()
    lives: Mapping[str, Life] = field(default_factory=dict)
    stopping_since: float | None = None
    hurry: int = 0
    settled: bool = False

    @property
    def is_stopping(self) -> bool:
        return self.stopping_since is not None

    @property
    def is_over(self) -> bool:
        return self.is_stopping and self._all(Phase.ENDED)

    @property
    def next_due(self) -> float | None:
        """When a Tick is wanted; None while only events matter."""
        return min((life.due for life in self.lives.values() if life.due is not None), default=None)

    def phase(self, name: str) -> Phase:
        return self.lives[name].phase

    def named(self, *phases: Phase) -> list[str]:
        """The parts in one of these phases."""
        return [name for name, life in self.lives.items() if life.phase in phases]

    def changed(self, name: str, **changes: object) -> House:
        life = replace(self.lives[name], **changes)  # type: ignore[arg-type]
        return replace(self, lives={**self.lives, name: life})

    def _all(self, *phases: Phase) -> bool:
        return all(life.phase in phases for life in self.lives.values())


Step = tuple[House, list[Action]]


def house_of(parts: Iterable[Part], rules: Rules | None = None) -> House:
    """Nothing is started yet."""
    by_name = {part.name: part for part in parts}
    return House(by_name, rules or Rules(), {name: Life() for name in by_name})


def decide(house: House, event: Event, now: float) -> Step:
    """What to do about an event, and where that leaves everyone."""
    match event:
        case Begin() | Tick():
            step = _on_time(house, now)
        case Ready(name):
            step = _on_ready(house, name, now)
        case Exited(name, status):
            step = _on_exit(house, name, status, now)
        case Stop():
            step = _on_stop(house, now)
    return _afterwards(step, now)


def _on_time(house: House, now: float) -> Step:
    actions: list[Action] = []
    for name, life in house.lives.items():
        if life.due is not None and life.due <= now:
            house, more = _on_due(house, name, now)
            actions += more
    return house, actions


def _on_due(house: House, name: str, now: float) -> Step:
    life = house.lives[name]
    if life.phase is Phase.RESTING:
        house, actions = _start(house, name, now)
        return house.changed(name, restarts=life.restarts + 1), actions
    if life.phase is Phase.STARTING:
        return house.changed(name, due=None), [Slow(name, now - life.since)]
    return house.changed(name, due=None, overdue=True), [Overdue(name), Kill(name)]


def _on_ready(house: House, name: str, now: float) -> Step:
    life = house.lives[name]
    if life.phase is not Phase.STARTING:
        return house, []
    took_s = now - life.since
    first_s = took_s if life.ready_s is None else life.ready_s
    house = house.changed(name, phase=Phase.READY, since=now, due=None, ready_s=first_s)
    return house, [WasReady(name, took_s, again=life.restarts > 0)]


def _on_exit(house: House, name: str, status: int | None, now: float) -> Step:
    is_done = status == 0 and house.parts[name].may_end
    if house.is_stopping or is_done:
        house = house.changed(name, phase=Phase.ENDED, since=now, due=None)
        return house, [Ended(name, asked=house.is_stopping)]
    return _on_death(house, name, status, now)


def _on_death(house: House, name: str, status: int | None, now: float) -> Step:
    life, rules = house.lives[name], house.rules
    ran_s = now - life.since
    steady = life.phase is Phase.READY and ran_s >= rules.steady_s
    deaths = 1 if steady else life.deaths + 1
    rest_s = rules.delay_s(deaths)
    house = house.changed(name, phase=Phase.RESTING, since=now, due=now + rest_s, deaths=deaths)
    return house, [Died(name, status, deaths, rest_s)]


def _on_stop(house: House, now: float) -> Step:
    """The first asks for an end in order, the second hurries, the third does not ask."""
    if not house.is_stopping:
        for name in house.named(Phase.HELD, Phase.RESTING):
            house = house.changed(name, phase=Phase.ENDED, since=now, due=None)
        for name in house.named(Phase.STARTING):
            house = house.changed(name, due=None)  # whether it would be slow does not matter now
        return replace(house, stopping_since=now), [Stopping(house.rules.stop_s)]
    house = replace(house, hurry=house.hurry + 1)
    alive = house.named(*ALIVE)
    last = max((house.parts[name].stop_by for name in alive), default=0.0)
    actions: list[Action] = []
    for name in alive:
        if house.hurry > 1 or house.parts[name].stop_by < last:
            house = house.changed(name, phase=Phase.STOPPING, due=None)
            actions.append(Kill(name))
        elif house.phase(name) is not Phase.STOPPING:
            house = house.changed(name, phase=Phase.STOPPING, due=now + HURRIED_S)
            actions.append(Terminate(name))
        else:
            house = house.changed(name, due=now + HURRIED_S)
    return house, actions


def _afterwards(step: Step, now: float) -> Step:
    """What follows from the new state, whatever led to it."""
    house, actions = step
    if house.is_stopping:
        house, more = _stop_next(house, now)
        return house, [*actions, *more, *([Over()] if house.is_over else [])]
    house, more = _start_held(house, now)
    actions = [*actions, *more]
    if not house.settled and not house.named(Phase.HELD) and not _still_awaited(house):
        down = tuple(house.named(Phase.STARTING, Phase.RESTING))
        return replace(house, settled=True), [*actions, Settled(down)]
    return house, actions


def _still_awaited(house: House) -> bool:
    """Whether a part is in its first start and not known to be slow."""
    starting = (life for life in house.lives.values() if life.phase is Phase.STARTING)
    return any(life.deaths == 0 and life.due is not None for life in starting)


def _start_held(house: House, now: float) -> Step:
    """Parts whose needs are met. Only the first start waits: later a part can do without."""
    actions: list[Action] = []
    for name in house.named(Phase.HELD):
        if all(house.phase(need) is Phase.READY for need in house.parts[name].needs):
            house, more = _start(house, name, now)
            actions += more
    return house, actions


def _start(house: House, name: str, now: float) -> Step:
    due = now + house.rules.slow_s
    return house.changed(name, phase=Phase.STARTING, since=now, due=due), [Start(name)]


def _stop_next(house: House, now: float) -> Step:
    """The next ones in the order, once those before them have ended."""
    alive = {name: house.parts[name].stop_by for name in house.named(*ALIVE)}
    if house.stopping_since is None or not alive:
        return house, []
    turn = min(alive.values())
    actions: list[Action] = []
    for name, stop_by in alive.items():
        if stop_by == turn and house.phase(name) is not Phase.STOPPING:
            due = max(now, house.stopping_since + stop_by * house.rules.stop_s)
            house = house.changed(name, phase=Phase.STOPPING, since=now, due=due)
            actions.append(Terminate(name))
    return house, actions
