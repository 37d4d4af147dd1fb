"""`nexus broker`: its flags and help; a plain call of it does not come through here."""

from pathlib import Path
from typing import Annotated

import typer

from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cli.plain import BrokerCall

app = single_app()


@app.command()
def broker(
    *,
    config: ConfigFile = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where clients connect.")
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where /health and /metrics answer.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the log is kept.")
    ] = None,
    fsync: Annotated[
        str | None,
        typer.Option(
            metavar="commit|interval|never", help="When an acknowledged message is on disk."
        ),
    ] = None,
    set_: SetOption = None,
) -> int:
    """Run the broker: a durable partitioned log that every Kafka client can use.

    Flags override the environment, which overrides the file; `nexus config show` tells the result.

    \b
    Examples:
      nexus broker
      nexus broker --config nexus.yaml
      nexus broker --listen 0.0.0.0:9092 --data-dir /var/lib/nexus --fsync interval
      nexus broker --set storage.retention_time=7d --set broker.default_partitions=12
    """
    return BrokerCall(config, listen, http, data_dir, fsync, tuple(set_ or ())).start()
