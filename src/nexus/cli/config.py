"""`nexus config show`: every setting of every part, and where its value came from."""

from pathlib import Path
from typing import Annotated

import typer

from nexus.cli.config_place import read_config
from nexus.cli.flags import broker_flags
from nexus.cli.options import ConfigFile, SetOption
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.settings import Shown, load_broker_settings
from nexus.settings.place import Config
from nexus.settings.proxy import load_proxy_settings
from nexus.settings.up import load_up_settings

_OTHERS = ("streamer.", "collector.", "gateway.", "proxy.", "up.")

app = typer.Typer(add_completion=False, help="What the settings are and where they come from.")


@app.callback()
def _group() -> None:
    """What the settings are and where they come from."""


@app.command()
def show(
    *,
    config: ConfigFile = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="As for broker.")] = None,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="As for broker.")] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="As for broker.")] = None,
    fsync: Annotated[str | None, typer.Option(metavar="MODE", help="As for broker.")] = None,
    set_: SetOption = None,
    json: JsonFlag = False,
) -> None:
    """Print every setting as each part would see it, and whether flag, environment, file or
    default decided.

    \b
    Examples:
      nexus config show
      nexus config show --config nexus.yaml --json
      nexus config show --config etcd://127.0.0.1:2379/telemetry/config
      NEXUS_STORAGE_FSYNC=never nexus config show
    """
    flags = broker_flags(
        listen=listen, http=http, data_dir=data_dir, fsync=fsync, assigned=set_ or ()
    )
    place = read_config(config)
    shown = [*load_broker_settings(place, flags=flags).shown(), *_others(place)]
    if json:
        print_json({s.name: {"value": s.value, "source": s.source} for s in shown})
    else:
        print_table(("setting", "value", "source"), shown)


def _others(config: Config | None) -> list[Shown]:
    """The sections of the other parts; they share the rest with the broker."""
    parts = load_up_settings(config)
    everyone = (parts.streamer, parts.collector, parts.gateway, load_proxy_settings(config), parts)
    shown = [line for part in everyone for line in part.shown()]
    return [line for line in shown if line.name.startswith(_OTHERS)]
