"""Every command by name, and how a wrong call is told."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from nexus import __version__
from nexus.cli.entry import fail
from nexus.cli.lazy import help_if_alone, lazy_app

_COMMANDS: Final = {
    "up": "nexus.cli.up",
    "doctor": "nexus.cli.doctor",
    "broker": "nexus.cli.broker",
    "streamer": "nexus.cli.streamer",
    "simulate": "nexus.cli.simulate",
    "collector": "nexus.cli.collector",
    "gateway": "nexus.cli.gateway",
    "proxy": "nexus.cli.proxy",
    "topics": "nexus.cli.topics",
    "groups": "nexus.cli.groups",
    "queue": "nexus.cli.queue",
    "store": "nexus.cli.store",
    "cluster": "nexus.cli.cluster",
    "config": "nexus.cli.config",
    "bench": "nexus.cli.bench",
}
_HELP: Final = (
    "GPU fleet telemetry: a durable queue that every Kafka client can use, and its tools."
)

app = lazy_app(_HELP, _COMMANDS)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        typer.echo(f"nexus {__version__}")
        raise typer.Exit
    help_if_alone(context)


def run_command(arguments: Sequence[str]) -> int:
    """Runs the command that the arguments name; its exit code."""
    try:
        result = get_command(app).main(
            args=list(arguments), prog_name="nexus", standalone_mode=False
        )
    except typer.Abort:
        return fail("cancelled", 1)
    except TyperException as error:
        return fail(_call_problem(error), error.exit_code)
    return result if isinstance(result, int) else 0


def _call_problem(error: TyperException) -> str:
    """A wrong call in one line, with where to read how it goes."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context else message
