"""Options that several commands share, as their help shows them."""

from typing import Annotated

import typer

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE|URL",
        help="The YAML file, or etcd://host:port/key that holds one (or NEXUS_CONFIG names it).",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any other option, as in the file."),
]
