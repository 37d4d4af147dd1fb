"""What the commands between Redis and a queue have in common: flags, a bar, signals, the result."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nexus.cli.output import print_json

if TYPE_CHECKING:
    from nexus.queue.redis.importing import Moved

Redis = Annotated[
    str,
    typer.Argument(
        metavar="REDIS",
        help="redis://host:port/db?list=KEY, or redis://host:port/db?stream=KEY&group=GROUP;"
        " also rediss://… (TLS) and unix:///path/to/socket?list=KEY.",
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="URL",
        help="The queue: kafka://host:port/topic or etcd://host:port/prefix (or MSG_QUEUE_URL)."
        " [default: kafka://127.0.0.1:9092/gpu-telemetry]",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Go on with what comes later, until Ctrl-C.")
]
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def queue_named(flag: str | None) -> str:
    """The address of --queue, or of the environment."""
    return flag or os.environ.get("MSG_QUEUE_URL") or "kafka://127.0.0.1:9092"


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Set by the first signal, for an end in good order; the second one ends it at once."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def on_signal(number: int, _: object) -> None:
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)
        if number == signal.SIGINT and sys.stderr.isatty():
            print("waiting for confirmations; Ctrl-C again stops at once", file=sys.stderr)

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def bar(what: str) -> Iterator[Callable[["Moved"], None]]:
    """A bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def show(said: "Moved") -> None:
            total = None if said.left is None else said.moved + said.left
            about = escape(said.problem) or what
            progress.update(task, total=total, completed=said.moved, description=about)

        yield show


def tell(moved: "Moved", more: dict[str, Any], *, follow: bool, json: bool) -> int:
    """What came of it. To be stopped is no failure for one that would never have ended."""
    said = {"moved": moved.moved, "bytes": moved.bytes, **more, "stopped": moved.stopped}
    if json:
        print_json(said)
    else:
        counts = [f"{n:,} {name}" for name, n in more.items() if isinstance(n, int) and n]
        end = "; stopped, run it again to go on" if moved.stopped else ""
        entries = "1 entry" if moved.moved == 1 else f"{moved.moved:,} entries"
        print(f"{entries} moved{''.join(f', {c}' for c in counts)}{end}")
    if moved.stopped and not follow:
        return 130
    return 1 if more.get("refused") or more.get("gone") else 0
