"""`nexus queue peek`: the oldest messages, which stay where they are."""

from typing import Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json
from nexus.cli.queue.options import Queue, Slots, ask, queue_of, slots_of

app = single_app()


@app.command()
def peek(
    count: Annotated[int, typer.Argument(metavar="[N]", min=1, max=1000)] = 10,
    *,
    slot: Slots = None,
    dead: Annotated[bool, typer.Option("--dead", help="Dead letters instead.")] = False,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Show the N oldest messages (10 unless told) without taking them out.

    \b
    Examples:
      nexus queue peek
      nexus queue peek 3 --slot local-cluster/0 --json
      nexus queue peek --dead
    """
    from nexus.cli.queue.showing import as_document, as_line
    from nexus.queue.etcd.admin import peek as find

    url, slots = queue_of(queue), slots_of(slot)
    items = ask(url, lambda client: find(client, url.layout, count, slots, dead=dead))
    if json:
        print_json([as_document(item) for item in items])
        return 0
    for item in items:
        print(as_line(item))
    if not items:
        print("no dead letters" if dead else "nothing waits")
    return 0
