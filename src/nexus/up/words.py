"""What is told, as one line for people or one object for programs. Nothing is printed here."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from nexus.up.events import Died, Ended, Notice, Over, Overdue, Settled, Slow, Stopping, WasReady
from nexus.up.machine import House, Phase
from nexus.up.runner import Program
from nexus.up.watch import Sight

Sort = Literal["good", "bad", "plain", "quiet"]  # how a line is meant
_SORTS: Final[Mapping[type[Notice], Sort]] = {
    WasReady: "good",
    Slow: "bad",
    Died: "bad",
    Ended: "quiet",
    Overdue: "bad",
    Stopping: "plain",
    Settled: "plain",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What lines are made of beside the notices."""

    programs: Mapping[str, Program]
    dashboard: str | None
    log_dir: str
    last_words: Callable[[str], str]
    proxy: str | None = None


def line_of(notice: Notice, facts: Facts) -> tuple[str, Sort] | None:
    """One line, or None for what goes without saying."""
    match notice:
        case WasReady(name, seconds, again):
            text = f"{name} is back after {seconds:.1f} s" if again else _ready(notice, facts)
        case Slow(name, seconds):
            text = f"{name} is not ready after {seconds:.0f} s; see {facts.programs[name].log}"
        case Died():
            text = _death(notice, facts)
        case Ended(name, asked):
            text = f"{name} stopped" if asked else _done(name, facts)
        case Overdue(name):
            text = f"{name} did not stop in its time and was killed; it will recover"
        case Stopping(seconds):
            text = f"stopping, within {seconds:.0f} s; Ctrl-C again hurries"
        case Settled(down):
            text = _settled(facts, down)
        case Over():
            return None
    return text, _SORTS[type(notice)]


def object_of(notice: Notice, facts: Facts) -> dict[str, Any]:
    """The same for programs."""
    names = {WasReady: "ready", Ended: "ended", Settled: "up", Over: "over"}
    event = names.get(type(notice), type(notice).__name__.lower())
    said: dict[str, Any] = {"event": event, **asdict(notice)}
    if isinstance(notice, Settled):
        said |= {"dashboard": facts.dashboard, "proxy": facts.proxy}
    if isinstance(notice, Died):
        said |= {"why": _why(notice, facts), "log": str(facts.programs[notice.name].log)}
    return said


def status_line(sight: Sight, house: House) -> str:
    """How it goes, in one line that is drawn over itself."""
    starting = house.named(Phase.HELD, Phase.STARTING)
    parts = []
    if sight.readings is not None:
        parts.append(f"{sight.readings:,} readings stored")
        parts.append(f"{sight.rate or 0:,.0f}/s")
        if sight.lag_messages:
            parts.append(f"{sight.lag_messages:,} messages wait")
    if sight.memory_bytes:
        parts.append(f"{size(sight.memory_bytes)} of memory")
    if starting:
        parts.insert(0, f"starting {', '.join(starting)}")
    resting = house.named(Phase.RESTING)
    if resting:
        parts.append(f"down: {', '.join(resting)}")
    if sight.problem:
        parts.append(sight.problem)
    return "  ·  ".join(parts)


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / (1 << 30):.2f} GB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MB"


def _ready(notice: WasReady, facts: Facts) -> str:
    about = facts.programs[notice.name].about
    return f"{notice.name} ready in {notice.seconds:.1f} s" + f": {about}" * bool(about)


def _done(name: str, facts: Facts) -> str:
    said = facts.last_words(name)
    return f"{name} is done" + f": {said}" * bool(said)


def _death(notice: Died, facts: Facts) -> str:
    said = _why(notice, facts)
    row = f", the {notice.deaths}. time in a row" if notice.deaths > 1 else ""
    return (
        f"{notice.name} died ({how(notice.status)}{f': {said}' if said else ''}){row};"
        f" starting it again in {notice.again_s:g} s; log {facts.programs[notice.name].log}"
    )


def _why(notice: Died, facts: Facts) -> str:
    """Its last words, unless it was killed: then they are about something else."""
    is_killed = notice.status is not None and notice.status < 0
    return "" if is_killed else facts.last_words(notice.name)


def how(status: int | None) -> str:
    """An exit status in words."""
    if status is None:
        return "it could not be started"
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"killed by {name}" + ", perhaps for want of memory" * (status == -signal.SIGKILL)


def _settled(facts: Facts, down: tuple[str, ...]) -> str:
    where = f"dashboard: {facts.dashboard}" if facts.dashboard else "up, without a dashboard"
    where += f"; proxy: {facts.proxy}" * bool(facts.proxy)
    rest = f"; not ready yet: {', '.join(down)}" if down else ""
    return f"{where}{rest}   (Ctrl-C stops everything; logs in {facts.log_dir})"
