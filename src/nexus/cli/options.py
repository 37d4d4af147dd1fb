"""Options that several commands share, as their help shows them."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The YAML file (or NEXUS_CONFIG names it)."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any other option, as in the file."),
]
