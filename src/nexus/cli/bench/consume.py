"""`nexus bench consume`: how fast consumers can read, and what that costs the broker."""

from nexus.bench import clients
from nexus.cli.bench.options import (
    BrokerUsage,
    Compression,
    Config,
    Consumers,
    Http,
    Messages,
    Partitions,
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
def consume(
    *,
    bootstrap: Bootstrap = None,
    messages: Messages = 2_000_000,
    size: Size = 200,
    partitions: Partitions = 12,
    consumers: Consumers = 1,
    compression: Compression = "none",
    config: Config = None,
    http: Http = None,
    json: JsonFlag = False,
) -> int:
    """Fill a topic, then read all of it as fast as it goes.

    \b
    Examples:
      nexus bench consume --http http://127.0.0.1:9464
      nexus bench consume --messages 500000 --consumers 4
    """
    given = load_producer_settings(read_config(config))
    options = clients.gathering(given.linger_ms, given.batch_bytes)
    with bench_topic(bootstrap, partitions) as (servers, topic):
        with progress("filling the topic", messages) as done:
            load = clients.Load(
                servers, topic, messages, size, compression=compression, options=options
            )
            clients.in_processes(clients.produce, [load], on_progress=done)
            counts = clients.ends(servers, topic, partitions)
        reads = [
            clients.Read(servers, topic, mine, sum(counts[index] for index in mine))
            for number in range(consumers)
            if (mine := tuple(range(number, partitions, consumers)))
        ]
        usage = BrokerUsage(http)
        with progress("reading", messages) as done:
            received = clients.in_processes(clients.consume, reads, on_progress=done)
        total = sum(one.messages for one in received)
        seconds = max(one.seconds for one in received)
        show(
            {
                "messages": total,
                "seconds": round(seconds, 3),
                "messages_per_second": round(total / seconds),
                "mb_per_second": round(sum(one.bytes for one in received) / seconds / 1e6, 1),
                **usage.finish(total),
            },
            json,
        )
    return 0
