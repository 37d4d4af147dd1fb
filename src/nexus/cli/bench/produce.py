"""`nexus bench produce`: how fast producers can send, and what that costs the broker."""

from typing import Annotated

import typer

from nexus.bench import clients
from nexus.bench.discard_process import discard_server
from nexus.cli.bench.options import (
    Acks,
    BrokerUsage,
    Compression,
    Config,
    Http,
    Messages,
    Partitions,
    Producers,
    Size,
    bench_topic,
    progress,
    show,
)
from nexus.cli.config_place import read_config
from nexus.cli.kafka import Bootstrap
from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag
from nexus.settings.producer import load_producer_settings

app = single_app()


@app.command()
def produce(
    *,
    bootstrap: Bootstrap = None,
    messages: Messages = 2_000_000,
    size: Size = 200,
    partitions: Partitions = 12,
    producers: Producers = 1,
    acks: Acks = "all",
    compression: Compression = "none",
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Send to a server that discards: what the client can do."),
    ] = False,
    config: Config = None,
    http: Http = None,
    json: JsonFlag = False,
) -> int:
    """Send messages as fast as they go, and wait for every acknowledgement.

    \b
    Examples:
      nexus bench produce --http http://127.0.0.1:9464
      nexus bench produce --messages 500000 --size 4096 --producers 4 --compression lz4
      nexus bench produce --discard        (the ceiling of this client on this machine)
    """
    given = load_producer_settings(read_config(config))
    target = discard_server(partitions) if discard else bench_topic(bootstrap, partitions)
    with target as (servers, topic):
        load = clients.Load(
            bootstrap=servers,
            topic=topic,
            messages=messages // producers,
            size=size,
            acks=acks,
            compression=compression,
            options=clients.gathering(given.linger_ms, given.batch_bytes),
        )
        usage = BrokerUsage(None if discard else http)
        with progress(f"sending messages of {size} bytes", messages) as done:
            loads = [load] * producers
            sent = clients.in_processes(clients.produce, loads, on_progress=done)
        total = sum(one.messages for one in sent)
        failed = sum(one.failed for one in sent)
        seconds = max(one.seconds for one in sent)
        show(
            {
                "messages": total,
                "failed": failed,
                "seconds": round(seconds, 3),
                "messages_per_second": round(total / seconds),
                "mb_per_second": round(total * size / seconds / 1e6, 1),
                **usage.finish(total),
            },
            json,
        )
    return 1 if failed else 0
