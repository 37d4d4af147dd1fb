"""The entry point: finds the command, runs it, and turns what went wrong into one line and a code.

0 is success, 1 a failure, 2 a wrong call or setting, 130 Ctrl-C. No tracebacks for known errors.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from nexus import __version__
from nexus.cli.lazy import help_if_alone, lazy_app
from nexus.errors import NexusError

_COMMANDS: Final = {
    "broker": "nexus.cli.broker",
    "topics": "nexus.cli.topics",
    "groups": "nexus.cli.groups",
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


def main() -> None:
    """The `nexus` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; prints at most one line about an error."""
    try:
        result = get_command(app).main(
            args=list(arguments), prog_name="nexus", standalone_mode=False
        )
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except KeyboardInterrupt:
        return 130
    except NexusError as error:
        return _fail(str(error), getattr(error, "exit_code", 1))
    except typer.Abort:
        return _fail("cancelled", 1)
    except TyperException as error:
        return _fail(_call_problem(error), error.exit_code)
    return result if isinstance(result, int) else 0


def _fail(message: str, code: int) -> int:
    print(f"nexus: {message}", file=sys.stderr)
    return code


def _call_problem(error: TyperException) -> str:
    """A wrong call in one line, with where to read how it goes."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context else message


def _reader_gone() -> int:
    """Whoever read our output has closed it (`nexus topics tail | head`): stop without a word."""
    # The interpreter flushes standard output once more at exit; that must find somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
