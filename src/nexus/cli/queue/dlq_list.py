"""`nexus queue dlq list`: the dead letters, oldest first."""

from itertools import islice
from typing import Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table
from nexus.cli.queue.dlq_letters import Queue, chosen, dead_queue, told

app = single_app()
_COLUMNS = ("letter", "attempts", "group", "from", "reason")


@app.command(name="list")
def list_(
    *,
    most: Annotated[int, typer.Option("--max", metavar="N", min=1, help="At most so many.")] = 100,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those with this in their reason.")
    ] = None,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """List dead letters: where each is, where it came from, and why it is dead.

    \b
    Examples:
      nexus queue dlq list --queue kafka://127.0.0.1:9092/jobs
      nexus queue dlq list --reason "no such host" --json
    """
    dead, failures = dead_queue(queue), Failures()
    letters = filter(chosen(reason), dead.letters(dead.bounds(failures)))
    found = [(f"{m.partition()}:{m.offset()}", told(m)) for m in islice(letters, most)]
    if json:
        print_json([{"letter": place, **why} for place, why in found])
    elif found:
        print_table(_COLUMNS, [_row(place, why) for place, why in found])
    else:
        print(f"no dead letters in {dead.topic}")
    return failures.exit_code


def _row(place: str, why: dict[str, str]) -> tuple[str | None, ...]:
    origin = ":".join(why.get(name, "?") for name in ("topic", "partition", "offset"))
    return place, why.get("attempts"), why.get("group"), origin, why.get("reason")
