"""`nexus gateway`: the REST API and the dashboard over the tables."""

from functools import partial
from typing import Annotated

import typer

from nexus.cli.config_place import loaded
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile
from nexus.settings.options import flags_given

app = single_app()


@app.command()
def gateway(
    *,
    config: ConfigFile = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="delta:///path, s3://bucket/prefix or etcd://host:port."
            " (default delta:./data/tables)",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="kafka://host:port/topic or etcd://host:port: live readings and /api/v1/queue come"
            " from it (or MSG_QUEUE_URL). (default none)",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Where clients connect. (default 8080)")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="0.0.0.0 opens it to the network. (default 127.0.0.1)"),
    ] = None,
    collector_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The collector's side port. (default http://127.0.0.1:9466)"
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Queries that run at once. (default 4)")
    ] = None,
) -> int:
    """Serve the REST API, live readings and the dashboard.

    Flags override the environment, which overrides the file. Nobody is asked for a password, so
    it listens on this machine alone unless --host says otherwise.

    \b
    Examples:
      nexus gateway
      nexus gateway --store delta:///var/lib/nexus --queue kafka://127.0.0.1:9092/gpu-telemetry
      nexus gateway --store etcd://127.0.0.1:2379 --queue etcd://127.0.0.1:2379
      nexus gateway --store s3://lake/nexus --host 0.0.0.0 --port 80
    """
    given = {
        "gateway.store": ("--store", store),
        "gateway.queue": ("--queue", queue),
        "gateway.port": ("--port", port),
        "gateway.host": ("--host", host),
        "gateway.collector_url": ("--collector-url", collector_url),
        "gateway.workers": ("--workers", workers),
    }
    from nexus.settings.gateway import SECTION, GatewaySection, load_gateway_settings

    flags = flags_given(given)
    load = partial(load_gateway_settings, flags=flags)
    settings, follow = loaded(config, load, {SECTION: GatewaySection})
    from nexus.gateway.main import run

    return run(settings, follow=follow)
