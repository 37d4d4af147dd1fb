"""How a collector looks while it runs: a live line on a terminal, JSON lines, or log lines.

Everything shown comes from a `View`; drawing is apart from deciding when to draw.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from nexus.observe.logs import get_logger
from nexus.pipeline.collector.progress import Held, Phase, View
from nexus.pipeline.collector.report import status_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

log = get_logger(__name__)

_DRAW_S: Final = 0.25
_LINE_S: Final = 10.0
_JSON_S: Final = 5.0
_LAG_MUCH_S: Final = 10.0
_FULL: Final = 0.7  # of etcd's quota: publishers are stopped at 0.85

Look = Callable[[], View]


async def show(look: Look, *, as_json: bool, facts: Mapping[str, object] | None = None) -> None:
    """Until cancelled; `facts` are on every line for programs."""
    if as_json:
        await _json_lines(look, facts or {})
    elif sys.stderr.isatty():
        await show_line(look)
    else:
        await _log_lines(look)


def json_line(view: View, facts: Mapping[str, object] | None = None) -> str:
    """One line for programs."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, **(facts or {}), **status_of(view)}, default=str)


async def _json_lines(look: Look, facts: Mapping[str, object]) -> None:
    """At every batch and change, and now and then in between."""
    loop = asyncio.get_running_loop()
    last: tuple[object, ...] = ()
    due = 0.0
    while True:
        view = look()
        now = loop.time()
        state = (view.phase, view.note, view.problem, view.total("batches"))
        if state != last or now >= due:
            print(json_line(view, facts), flush=True)
            last, due = state, now + _JSON_S
        await asyncio.sleep(_DRAW_S)


async def _log_lines(look: Look) -> None:
    last = ("", "")
    due = 0.0
    loop = asyncio.get_running_loop()
    while True:
        view = look()
        if (view.phase.value, view.note) != last and view.phase is not Phase.RUNNING:
            log.info(view.phase.value, **({"why": view.note} if view.note else {}))
        last = (view.phase.value, view.note)
        if view.phase is Phase.RUNNING and loop.time() >= due:
            due = loop.time() + _LINE_S
            log.info(
                "collecting",
                readings=view.total("readings"),
                rate=round(view.rate),
                lag_messages=view.lag,
                batch_s=None if view.batch_s is None else round(view.batch_s, 2),
                quarantined=view.total("quarantined"),
                problem=view.problem,
            )
        await asyncio.sleep(_DRAW_S)


async def show_line(look: Look, console: Console | None = None) -> None:
    """Until cancelled, drawn over itself a few times a second."""
    from rich.console import Console as RichConsole  # noqa: PLC0415 - only a terminal needs it
    from rich.live import Live  # noqa: PLC0415

    screen = console or RichConsole(stderr=True)
    with Live(console=screen, auto_refresh=False, transient=True) as live, _logs_above():
        while True:
            live.update(panel(look()), refresh=True)
            await asyncio.sleep(_DRAW_S)


@contextmanager
def _logs_above() -> Iterator[None]:
    """Log lines go where the live line makes room for them, as long as there is one."""
    handlers = [h for h in logging.getLogger().handlers if isinstance(h, logging.StreamHandler)]
    before = [handler.setStream(sys.stderr) for handler in handlers]
    try:
        yield
    finally:
        for handler, stream in zip(handlers, before, strict=True):
            if stream is not None:  # None: it was there already
                handler.setStream(stream)


def panel(view: View) -> RenderableType:
    """The numbers now; before there are any, what is waited for."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not view.total("batches") and view.phase is not Phase.RUNNING:
        return _waiting(view)
    parts: list[RenderableType] = [_numbers(view)]
    if view.problem:
        parts.append(Text(f"{view.problem}; trying again", style="red", overflow="ellipsis"))
    elif view.phase is Phase.STOPPING:
        parts.append(_waiting(view))
    troubles = [f"{name}: {c.problem}" for name, c in view.chores.items() if c.problem]
    parts += [Text(f"{trouble}; trying again", style="yellow") for trouble in troubles]
    return Group(*parts)


def _waiting(view: View) -> Text:
    from rich.text import Text  # noqa: PLC0415

    line = Text(view.phase.value, style="yellow" if view.phase is Phase.STANDBY else "bold")
    if view.note:
        line.append(f" {view.note}" if view.phase is Phase.STARTING else f": {view.note}")
    return line.append(f"  {view.at - view.since:.0f} s", style="dim")


def _numbers(view: View) -> RenderableType:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table.grid(padding=(0, 3))
    cells = {
        "readings": Text(f"{view.total('readings'):,}", style="bold"),
        "rate": Text(f"{view.rate:,.0f}/s"),
        "lag": _lag(view),
        "batch": Text("-" if view.batch_s is None else f"{view.batch_s:.1f} s"),
        "quarantined": _count(view.total("quarantined"), "red"),
        "last commit": _commit(view),
        "state": _state(view),
    }
    if view.held is not None:
        cells = _with_queue(cells, view.held)
    table.add_row(*(Text(name, style="dim") for name in cells))
    table.add_row(*cells.values())
    return table


def _with_queue(cells: Mapping[str, Text], held: Held) -> dict[str, Text]:
    """What an operator of etcd wants to know beside the rest, before the state."""
    from rich.text import Text  # noqa: PLC0415

    used = held.in_use_bytes / held.quota_bytes if held.quota_bytes else 0.0
    full = Text(f"{used:.0%} full", style="yellow" if used >= _FULL else "")
    more = {"etcd": full} | ({"expired": _count(held.expired, "red")} if held.expired else {})
    rest = dict(cells)
    state = rest.pop("state")
    return {**rest, **more, "state": state}


def _lag(view: View) -> Text:
    from rich.text import Text  # noqa: PLC0415

    if view.lag is None:
        return Text("-")
    return Text(f"{view.lag:,} messages" if view.lag != 1 else "1 message")


def _commit(view: View) -> Text:
    from rich.text import Text  # noqa: PLC0415

    if view.ended_at is None:
        return Text("-")
    ago = view.at - view.ended_at
    late = ago > _LAG_MUCH_S and view.has_lag
    return Text(f"{ago:.0f} s ago", style="yellow" if late else "")


def _count(number: int, style: str) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text(f"{number:,}", style=style if number else "")


def _state(view: View) -> Text:
    from rich.text import Text  # noqa: PLC0415

    if view.queue_problem:
        return Text("queue away", style="bold red")
    if view.problem:
        return Text("lagging" if view.is_lagging else "failing", style="bold red")
    if view.phase is Phase.RUNNING:
        caught_up = view.lag is not None and not view.lag
        return Text("caught up" if caught_up else "running", style="green")
    return Text(view.phase.value, style="yellow")
