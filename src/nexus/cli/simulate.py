"""`nexus simulate`: a simulated GPU fleet as a CSV file, with the truth beside it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.settings.errors import SettingsError
from nexus.settings.units import parse_duration_ms

app = single_app()

_DEFAULT_START = "2025-01-01T00:00:00Z"


@app.command()
def simulate(
    *,
    out: Annotated[Path, typer.Option(help="The file to write; .gz compresses.")],
    hosts: Annotated[int, typer.Option(help="Machines.")] = 4,
    gpus: Annotated[int, typer.Option(help="GPUs on each machine.")] = 8,
    seed: Annotated[int, typer.Option(help="Another number, another fleet.")] = 1,
    duration: Annotated[
        str, typer.Option("--duration", "--seconds", help="How long: 10m, or a number of seconds.")
    ] = "10m",
    interval: Annotated[str, typer.Option(help="Between two readings of a metric.")] = "1s",
    start: Annotated[str, typer.Option(help="The first reading's time, or now.")] = _DEFAULT_START,
    faults: Annotated[
        str,
        typer.Option(
            help="all, none, or some of xid, throttle, ecc, straggler, silent, upgrade, reset, "
            "replays, blank with commas between."
        ),
    ] = "all",
    fault_period: Annotated[
        str, typer.Option(help="In each such time every kind of fault happens.")
    ] = "10m",
    truth: Annotated[
        Path | None,
        typer.Option(
            help="Write here (JSON) which GPU was in which state, who held it, and faults."
        ),
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Make a fleet's readings: the same seed gives the same bytes on any machine.

    \b
    Examples:
      nexus simulate --out fleet.csv
      nexus simulate --hosts 32 --duration 1h --interval 5s --out fleet.csv.gz --truth truth.json
      nexus simulate --seconds 120 --faults xid,throttle --fault-period 1m --out faults.csv
    """
    from nexus.streamer.simulator import Simulation, SimulatorConfig
    from nexus.streamer.simulator.config import parse_faults
    from nexus.streamer.simulator.files import new_file, write_csv
    from nexus.streamer.simulator.truth import Truth

    config = SimulatorConfig(
        hosts=hosts,
        gpus=gpus,
        seed=seed,
        interval_ms=_milliseconds("--interval", interval),
        start_ms=_start_ms(start),
        faults=parse_faults(faults),
        fault_period_ms=_milliseconds("--fault-period", fault_period),
    )
    ticks = -(-_milliseconds("--duration", duration) // config.interval_ms)
    simulation = Simulation(config)
    told = Truth(simulation) if truth is not None else None
    begun = time.monotonic()
    with _bar(ticks) as progress, new_file(out) as sink:
        written = write_csv(simulation, ticks, sink, truth=told, progress=progress)
    if told is not None and truth is not None:
        with new_file(truth) as sink:
            sink.write(told.text().encode())
    seconds = time.monotonic() - begun
    _show(
        {
            "file": str(out),
            "gpus": len(simulation.fleet.gpus),
            "ticks": ticks,
            "rows": written.rows,
            "bytes": out.stat().st_size,
            "seconds": round(seconds, 3),
            "rows_per_second": round(written.rows / seconds) if seconds else None,
            "faults": sum(
                fault.start_ms < ticks * config.interval_ms for fault in simulation.faults
            ),
            "truth": str(truth) if truth else None,
        },
        json,
    )
    return 0


def _milliseconds(flag: str, text: str) -> int:
    """A duration; a bare number is seconds. At least a millisecond."""
    try:
        duration_ms = parse_duration_ms(
            f"{text}s" if text.replace(".", "", 1).isdecimal() else text
        )
    except ValueError:
        duration_ms = 0
    if duration_ms < 1:
        raise SettingsError(f'flag {flag}: found "{text}", expected a time such as 10m, 5s or 90')
    return duration_ms


def _start_ms(text: str) -> int:
    from nexus.streamer.sources.sim_url import parse_start

    if text == "now":
        return int(time.time()) * 1_000
    return parse_start(text)


@contextmanager
def _bar(ticks: int) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, with the rows made so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=ticks, rows=0)

        def progress(done: int, rows: int) -> None:
            bar.update(task, completed=done, rows=rows)

        yield progress


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else value)
        for name, value in result.items()
        if value is not None
    ]
    print_table(("simulated", "value"), rows)
