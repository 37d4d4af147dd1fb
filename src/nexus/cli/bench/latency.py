"""`nexus bench latency`: from the send call to the consumer, at a rate below saturation."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nexus.bench.latency import WARM_UP_SECONDS, LatencySetting, measure
from nexus.cli.bench.options import (
    Acks,
    BrokerUsage,
    Config,
    Http,
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
def latency(
    *,
    bootstrap: Bootstrap = None,
    rate: Annotated[float, typer.Option(min=1, help="Messages a second, all together.")] = 5000,
    seconds: Annotated[float, typer.Option(min=1, help="How long, after a warm-up.")] = 10,
    size: Size = 200,
    partitions: Partitions = 1,
    producers: Producers = 1,
    acks: Acks = "all",
    linger_ms: Annotated[
        float | None, typer.Option(min=0, help="How long producers gather; 0 unless told.")
    ] = None,
    config: Config = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            exists=True, help="Also measure the disk's own fsync time, in this folder, meanwhile."
        ),
    ] = None,
    http: Http = None,
    json: JsonFlag = False,
) -> int:
    """Measure end-to-end latency. Producers and consumer run on this machine and share its clock.

    \b
    Examples:
      nexus bench latency
      nexus bench latency --partitions 12 --producers 4 --data-dir ./data
    """
    given = load_producer_settings(read_config(config))
    if linger_ms is None:
        linger_ms = given.linger_ms or 0
    with bench_topic(bootstrap, partitions) as (servers, topic):
        setting = LatencySetting(
            bootstrap=servers,
            topic=topic,
            partitions=partitions,
            rate=rate,
            seconds=seconds,
            producers=producers,
            size=size,
            acks=acks,
            linger_ms=linger_ms,
            batch_bytes=given.batch_bytes,
            disk=data_dir,
        )
        usage = BrokerUsage(http)
        total = int(rate * (seconds + WARM_UP_SECONDS))
        with progress(f"{rate:g} messages a second", total) as done:
            took = measure(setting, done)
        cost = usage.finish(int(rate * seconds))
    show(_rounded(asdict(took)) | cost, json)
    return 0


def _rounded(numbers: dict[str, Any]) -> dict[str, Any]:
    disk = numbers.pop("disk") or {}
    numbers |= {f"fsync_{name}": value for name, value in disk.items()}
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in numbers.items()}
