"""`nexus queue watch`: messages as they are published."""

import json as json_format
from contextlib import aclosing
from typing import Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag
from nexus.cli.queue.options import Queue, ask, queue_of

app = single_app()


@app.command()
def watch(
    *,
    max_: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N keys.")
    ] = None,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Print messages as they are published, from now on; nothing is taken out.

    \b
    Examples:
      nexus queue watch
      nexus queue watch --max 100 --json
    """
    from nexus.cli.queue.showing import as_document, as_line
    from nexus.etcd import Client
    from nexus.queue.etcd.admin import follow

    url = queue_of(queue)

    async def story(client: Client) -> None:
        left = max_
        async with aclosing(follow(client, url.layout)) as items:
            async for item in items:
                said = (
                    json_format.dumps(as_document(item), ensure_ascii=False)
                    if json
                    else as_line(item)
                )
                print(said, flush=True)
                left = None if left is None else left - 1
                if left == 0:
                    return

    ask(url, story)
    return 0
