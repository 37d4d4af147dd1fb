"""`nexus bench e2e`: producers and a consumer at once, as a pipeline has them."""

from nexus.bench.clients import Load, gathering
from nexus.bench.end_to_end import measure
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
def e2e(
    *,
    bootstrap: Bootstrap = None,
    messages: Messages = 2_000_000,
    size: Size = 200,
    partitions: Partitions = 12,
    producers: Producers = 1,
    acks: Acks = "all",
    compression: Compression = "none",
    config: Config = None,
    http: Http = None,
    json: JsonFlag = False,
) -> int:
    """Send messages as fast as they go while a consumer reads them: what goes through the broker.

    \b
    Examples:
      nexus bench e2e --http http://127.0.0.1:9464
      nexus bench e2e --messages 500000 --producers 4
    """
    given = load_producer_settings(read_config(config))
    options = gathering(given.linger_ms, given.batch_bytes)
    with bench_topic(bootstrap, partitions) as (servers, topic):
        load = Load(servers, topic, messages, size, acks, compression, options=options)
        usage = BrokerUsage(http)
        # Each message is counted when it is sent and when it is read.
        with progress("sending and reading", 2 * messages) as done:
            through = measure(load, partitions, producers, done)
        seconds = max(through.sending_seconds, through.reading_seconds)
        rate = through.messages / seconds
        show(
            {
                "messages": through.messages,
                "failed": through.failed,
                "seconds_sending": round(through.sending_seconds, 3),
                "seconds_reading": round(through.reading_seconds, 3),
                "messages_per_second": round(rate),
                "mb_per_second": round(rate * size / 1e6, 1),
                **usage.finish(through.messages),
            },
            json,
        )
    return 1 if through.failed else 0
