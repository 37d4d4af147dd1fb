"""How a run looks while it runs: a moving panel on a terminal, else a log line now and then."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from nexus.observe.logs import get_logger
from nexus.streamer.report import size_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from nexus.streamer.engine import Engine
    from nexus.streamer.picture import HostLine

log = get_logger(__name__)

_PANEL_S: Final = 0.25
_LINE_S: Final = 5.0
_HOSTS_SHOWN: Final = 12
_BAR_CELLS: Final = 20
_HOT_CELSIUS: Final = 85


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
    """The numbers now, and the fleet that they are of."""
    from rich.console import Group  # noqa: PLC0415

    hosts = engine.picture.hosts()
    parts = [_numbers(engine)]
    if hosts:
        parts += [_fleet(hosts[:_HOSTS_SHOWN])]
    if len(hosts) > _HOSTS_SHOWN:
        parts += [f"… and {len(hosts) - _HOSTS_SHOWN} hosts more"]
    return Group(*parts)


def _fleet(hosts: list[HostLine]) -> RenderableType:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table.grid(padding=(0, 3))
    table.add_row()
    table.add_row(
        *(Text(name, style="dim") for name in ("host", "GPUs", "busy", "power", "hottest"))
    )
    for host in hosts:
        table.add_row(
            Text(host.name),
            Text(f"{host.gpus}", justify="right"),
            _bar(host.utilisation),
            Text("-" if host.power_watts is None else f"{host.power_watts / 1000:.2f} kW"),
            _temperature(host.hottest_celsius),
        )
    return table


def _bar(share: float | None) -> Text:
    from rich.text import Text  # noqa: PLC0415

    if share is None:
        return Text("-")
    full = round(min(max(share, 0.0), 1.0) * _BAR_CELLS)
    bar = Text("█" * full, style="green")
    bar.append("░" * (_BAR_CELLS - full), style="dim")
    return bar.append(f" {share:4.0%}", style="default")


def _temperature(celsius: float | None) -> Text:
    from rich.text import Text  # noqa: PLC0415

    if celsius is None:
        return Text("-")
    return Text(f"{celsius:.0f} °C", style="red" if celsius >= _HOT_CELSIUS else "")


def _numbers(engine: Engine) -> RenderableType:
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
