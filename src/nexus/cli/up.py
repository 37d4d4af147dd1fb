"""`nexus up`: every part on this machine, with one command."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nexus.cli.config_place import read_config
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile
from nexus.settings.options import flags_given

app = single_app()


@app.command()
def up(
    *,
    config: ConfigFile = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where everything is kept. (default ./data)"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Your own readings, as for `nexus streamer`; more than once for several."
            " (default a recording of an H200 and a simulated fleet)",
        ),
    ] = None,
    loop: Annotated[
        bool | None, typer.Option("--loop/--no-loop", help="Play --source again at its end.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Of dashboard and API. (default 8080)")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="Where the dashboard listens; 0.0.0.0 opens it to the network."
            " (default 127.0.0.1)",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="kafka|etcd|URL",
            help="A broker of its own, an etcd of its own, or a queue that runs already, such as"
            " etcd://127.0.0.1:2379. (default kafka)",
        ),
    ] = None,
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="delta|etcd|URL",
            help="Where readings are kept; more than once for several, of which the dashboard"
            " shows the first. (default delta, in the data directory)",
        ),
    ] = None,
    etcd_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Of an etcd of its own. (default 2379)")
    ] = None,
    broker_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Of the broker. (default 9092)")
    ] = None,
    broker_http_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Of the broker's health and metrics. (default 9464)"),
    ] = None,
    streamer_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Of the first streamer's health and uploads. (default 9465)"
        ),
    ] = None,
    collector_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Of the collector's health and metrics. (default 9466)"),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="1GB", help="Of Spark's Java machine. (default 1GB)")
    ] = None,
    collector: Annotated[
        bool | None,
        typer.Option("--collector/--no-collector", help="Without it, readings wait in the queue."),
    ] = None,
    gateway: Annotated[
        bool | None, typer.Option("--gateway/--no-gateway", help="Dashboard and API.")
    ] = None,
    proxy: Annotated[
        bool | None,
        typer.Option("--proxy/--no-proxy", help="Let any HTTP client use the queue. (default no)"),
    ] = None,
    proxy_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Of the proxy. (default 8088)")
    ] = None,
    demo_seconds: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so long, and sum up.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines for programs.")] = False,
) -> int:
    """Start queue, collector, streamers and gateway, look after them, and stop them in order.

    A part that dies is started again. Ctrl-C stops everything within 15 s and loses nothing; the
    next start goes on where this one stopped. What a part's section of the file or its part of
    the environment says counts here too. `nexus doctor` says what is in the way.

    \b
    Examples:
      nexus up
      nexus up --source csv:///data/dcgm.csv --data-dir /var/lib/nexus
      nexus up --source exporter://node-1:9400,node-2:9400 --host 0.0.0.0
      nexus up --port 8081 --broker-port 9192
      nexus up --queue etcd --store etcd
      nexus up --proxy
      nexus up --demo-seconds 60 --json
    """
    given: dict[str, tuple[str, Any]] = {
        "up.data_dir": ("--data-dir", data_dir),
        "up.source": ("--source", source or None),
        "up.queue": ("--queue", queue),
        "up.store": ("--store", store or None),
        "up.etcd_port": ("--etcd-port", etcd_port),
        "up.collector": ("--collector", collector),
        "up.gateway": ("--gateway", gateway),
        "up.proxy": ("--proxy", proxy),
        "up.proxy_port": ("--proxy-port", proxy_port),
        "up.demo_seconds": ("--demo-seconds", demo_seconds),
        "streamer.loop": ("--loop", loop),
        "streamer.http_port": ("--streamer-port", streamer_port),
        "broker.port": ("--broker-port", broker_port),
        "broker.http_port": ("--broker-http-port", broker_http_port),
        "collector.http_port": ("--collector-port", collector_port),
        "collector.memory": ("--memory", memory),
        "gateway.port": ("--port", port),
        "gateway.host": ("--host", host),
    }
    from nexus.settings.up import load_up_settings

    flags = flags_given(given)
    settings = load_up_settings(read_config(config), flags=flags)
    if settings.up.collector:
        _need_java()
    from nexus.up.main import run

    return run(settings, config, as_json=json)


def _need_java() -> None:
    """Raises NoJava, which says what to install: sooner than Spark would, and once."""
    import os

    from nexus.pipeline.collector.java import find_java

    find_java(os.environ)
