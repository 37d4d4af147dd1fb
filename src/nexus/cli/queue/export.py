"""`nexus queue export`: fills a list or a stream of Redis from a queue."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag
from nexus.cli.queue.moving import Follow, Queue, Redis, bar, queue_named, stop_on_signals, tell

if TYPE_CHECKING:
    from nexus.queue.redis.exporting import Origin
    from nexus.queue.redis.target import RedisTarget

app = single_app()


@app.command()
def export(
    redis: Redis,
    *,
    group: Annotated[
        str,
        typer.Option(
            metavar="GROUP",
            help="Begin where this group of a Kafka queue has come to, such as nexus-collector;"
            " without it at the beginning.",
        ),
    ] = "",
    readings: Annotated[
        bool,
        typer.Option("--readings", help="Write the readings of Arrow messages as JSON, one each."),
    ] = False,
    follow: Follow = False,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Fill a list or a stream of Redis from a queue, each message once, whatever ends it.

    How far it is lies in Redis beside the key; run it again to go on. A Kafka queue keeps its
    messages; those of a queue in etcd are taken out, so stop its collector first.

    \b
    Examples:
      nexus queue export 'redis://127.0.0.1:6379/0?list=telemetry' --group nexus-collector
      nexus queue export 'redis://db:6379/0?stream=telemetry&form=fields' --readings --follow
      nexus queue export 'redis://db:6379/0?list=jobs' --queue etcd://127.0.0.1:2379
    """
    from nexus.queue.redis.client import RedisClient
    from nexus.queue.redis.exporting import Export
    from nexus.queue.redis.target import RedisTarget
    from nexus.queue.redis.url import parse_redis_url

    url = parse_redis_url(redis)
    with ExitStack() as ending:
        client = RedisClient(url)
        ending.callback(client.close)
        target = RedisTarget(client, readings=readings)
        origin = _origin(queue_named(queue), target, group, ending)
        stop = ending.enter_context(stop_on_signals())
        show = ending.enter_context(bar(f"to {url}"))
        moved = Export(origin, stop, follow=follow, show=show).run()
    more = {"gone": origin.gone, "left": moved.left}
    return tell(moved, more, follow=follow, json=json)


def _origin(queue: str, target: "RedisTarget", group: str, ending: ExitStack) -> "Origin":
    from nexus.queue.kafka_reader import KafkaReader
    from nexus.queue.redis.exporting import EtcdOrigin, KafkaOrigin
    from nexus.queue.url import EtcdUrl, parse_queue_url
    from nexus.settings.errors import SettingsError

    url = parse_queue_url(queue)
    if isinstance(url, EtcdUrl):
        if group:
            raise SettingsError("flag --group: a queue in etcd has no groups; leave it out")
        emptied = EtcdOrigin(url, target)
        ending.callback(emptied.close)
        return emptied
    reader = KafkaReader(url, timeout_s=15.0)
    ending.callback(reader.close)
    return KafkaOrigin(reader, target, group)
