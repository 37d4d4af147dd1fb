"""How a run looks while it runs: a moving panel on a terminal, else a log line now and then."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from nexus.observe.logs import get_logger
from nexus.streamer.report import size_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from nexus.streamer.engine import Engine

log = get_logger(__name__)

_PANEL_S: Final = 0.25
_LINE_S: Final = 5.0


async def show(engine: Engine) -> None:
    """Until cancelled."""
    if sys.stderr.isatty():
        await show_panel(engine)
    else:
        await _lines(engine)


async def _lines(engine: Engine) -> None:
    while True:
        await asyncio.sleep(_LINE_S)
        stats, outbox = engine.stats, engine.outbox
        log.info(
            "streaming",
            readings=stats.readings_acknowledged,
            rate=round(stats.rate()),
            bytes=stats.bytes_acknowledged,
            lag_s=round(outbox.lag_s(), 2),
            errors=stats.errors,
            spool_bytes=stats.spool_bytes,
            queue=outbox.mode.value,
        )


async def show_panel(engine: Engine, console: Console | None = None) -> None:
    """Until cancelled, drawn over itself a few times a second."""
    from rich.console import Console as RichConsole  # noqa: PLC0415 - only a terminal needs it
    from rich.live import Live  # noqa: PLC0415

    screen = console or RichConsole(stderr=True)
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        while True:
            live.update(panel(engine), refresh=True)
            await asyncio.sleep(_PANEL_S)


def panel(engine: Engine) -> RenderableType:
    """The numbers now."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    stats, outbox = engine.stats, engine.outbox
    table = Table.grid(padding=(0, 3))
    table.add_row(*(Text(name, style="dim") for name in _NAMES))
    errors = Text(f"{stats.errors:,}", style="red" if stats.errors else "")
    spool = Text(size_text(stats.spool_bytes), style="yellow" if stats.spool_bytes else "")
    mode = Text(outbox.mode.value, style="green" if not outbox.is_away else "bold red")
    table.add_row(
        Text(f"{stats.readings_acknowledged:,}", style="bold"),
        f"{stats.rate():,.0f}/s",
        size_text(stats.bytes_acknowledged),
        f"{outbox.lag_s():.1f} s",
        errors,
        spool,
        mode,
    )
    return table


_NAMES: Final = ("readings", "rate", "bytes", "lag", "errors", "spool", "queue")
