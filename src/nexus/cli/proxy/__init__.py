"""`nexus proxy`: the HTTP front door of a queue; without a command it serves."""

from functools import partial
from typing import Annotated

import typer

from nexus.cli.config_place import loaded
from nexus.cli.lazy import lazy_app
from nexus.cli.options import ConfigFile
from nexus.settings.options import flags_given

_HELP = """Let any HTTP client write to a queue, take messages from it and acknowledge them.

Run as many as you like behind any load balancer: each finds the right broker by itself and keeps
nothing that another would miss.

\b
Examples:
  nexus proxy
  nexus proxy --brokers broker-1:9092,broker-2:9092 --port 8088
  BROKER_SERVICE=msg-queue BROKER_COUNT=3 nexus proxy --host 0.0.0.0
  nexus proxy status --url http://127.0.0.1:8088
"""

app = lazy_app(_HELP, {"status": "nexus.cli.proxy.status"})


@app.callback(invoke_without_command=True)
def proxy(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…",
            help="Brokers to ask first (or NEXUS_BOOTSTRAP). (default 127.0.0.1:9092)",
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="cluster, or static for brokers with a fixed list of peers. (default cluster)",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Where clients connect. (default 8080)")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="0.0.0.0 opens it to the network. (default 127.0.0.1)"),
    ] = None,
) -> int | None:
    """Without a command: serve."""
    if context.invoked_subcommand is not None:
        return None
    given = {
        "proxy.brokers": ("--brokers", brokers),
        "proxy.mode": ("--mode", mode),
        "proxy.port": ("--port", port),
        "proxy.host": ("--host", host),
    }
    from nexus.settings.proxy import SECTION, ProxySection, load_proxy_settings

    flags = flags_given(given)
    load = partial(load_proxy_settings, flags=flags)
    settings, follow = loaded(config, load, {SECTION: ProxySection})
    from nexus.proxy.main import run

    return run(settings, follow=follow)
