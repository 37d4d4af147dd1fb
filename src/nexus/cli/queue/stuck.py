"""`nexus queue stuck`: what does not go on by itself as it should, and why."""

from typing import Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.moments import format_moment
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cli.queue.options import Queue, age, age_ms, ask, now_ms, queue_of

app = single_app()


@app.command()
def stuck(
    *,
    older: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="What counts as too long.")
    ] = "1m",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Of each kind at most.")] = 100,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """List messages that failed, dead letters, and what waits or is in hand for too long.

    The exit code is 1 if there is anything.

    \b
    Examples:
      nexus queue stuck
      nexus queue stuck --older-than 10m --json
    """
    from nexus.queue.etcd.admin import stuck as find

    url, now = queue_of(queue), now_ms()
    too_old = age_ms(older, "--older-than") or 0
    found = ask(
        url, lambda client: find(client, url.layout, now_ms=now, older_ms=too_old, most=limit)
    )
    if json:
        print_json(
            [
                {**each._asdict(), "since": None if each.since_ms is None else _time(each.since_ms)}
                for each in found
            ]
        )
    elif found:
        rows = [(e.kind, e.where, age(e.since_ms, now), e.attempts, e.why) for e in found]
        print_table(("kind", "where", "for", "attempts", "why"), rows)
    else:
        print("nothing is stuck")
    return 1 if found else 0


def _time(at_ms: int) -> str | None:
    return format_moment(at_ms)
