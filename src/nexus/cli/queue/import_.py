"""`nexus queue import`: empties a list or a stream of Redis into a queue."""

from typing import TYPE_CHECKING, Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag
from nexus.cli.queue.moving import Follow, Queue, Redis, bar, queue_named, stop_on_signals, tell
from nexus.cli.queue.options import age_ms

if TYPE_CHECKING:
    from nexus.queue.redis.client import RedisClient
    from nexus.queue.redis.source import Source

app = single_app()


@app.command(name="import")
def import_(
    redis: Redis,
    *,
    follow: Follow = False,
    idle: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long a consumer of the stream's group may be silent before what it has"
            " in hand is taken over.",
        ),
    ] = "1m",
    partitions: Annotated[
        int, typer.Option(min=1, max=10_000, help="Of a topic or queue that is made now.")
    ] = 12,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Empty a list or a stream of Redis into a queue; nothing is lost, whatever ends it.

    An element leaves its list, and an entry of a stream is acknowledged, when the queue has
    confirmed it. Run it again to go on. The password is in REDIS_PASSWORD.

    \b
    Examples:
      nexus queue import 'redis://127.0.0.1:6379/0?list=telemetry'
      nexus queue import 'redis://db:6379/0?stream=telemetry&group=workers' --follow
      nexus queue import 'rediss://user@db/0?list=jobs&password_file=/etc/pw' --queue etcd://e:2379
    """
    from nexus.queue.opening import open_publisher
    from nexus.queue.publishing import PublisherOptions
    from nexus.queue.redis.client import RedisClient
    from nexus.queue.redis.entries import message_of
    from nexus.queue.redis.importing import Import
    from nexus.queue.redis.url import parse_redis_url

    url, idle_ms = parse_redis_url(redis), age_ms(idle, "--idle") or 0
    publisher = open_publisher(queue_named(queue), PublisherOptions(partitions=partitions))
    client = RedisClient(url)
    source = _source(client, idle_ms, follow)
    try:
        with stop_on_signals() as stop, bar(f"from {url}") as show:
            whole = Import(
                source, publisher, lambda e: message_of(e, url), stop, follow=follow, show=show
            )
            moved = whole.run()
    finally:
        publisher.close()
        client.close()
    found = source.found
    more = {
        "recovered": found.recovered,
        "claimed": found.claimed,
        "gone": found.gone,
        "refused": moved.refused,
        "left": moved.left,
    }
    return tell(moved, more, follow=follow, json=json)


def _source(client: "RedisClient", idle_ms: int, follow: bool) -> "Source":
    if client.url.kind == "stream":
        from nexus.queue.redis.streams import StreamSource

        return StreamSource(client, idle_ms=idle_ms, make=follow)
    from nexus.queue.redis.lists import ListSource

    return ListSource(client)
