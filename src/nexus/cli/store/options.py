"""What the commands of `nexus store` have in common."""

import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from nexus.cli.output import print_json

if TYPE_CHECKING:
    from nexus.store.making import Made

StoreUrl = Annotated[
    str, typer.Option("--store", help="The store, such as postgresql://user@host/database.")
]

StoreAddress = Annotated[
    str,
    typer.Argument(
        metavar="STORE", help="delta:///path, s3://…, etcd://…, postgresql://… or influxdb://…"
    ),
]


def tell(made: "Made", *, json: bool) -> int:
    """What became of the tables."""
    if json:
        print_json({"store": made.store, "before": made.before, "version": made.version})
    elif made.before == made.version:
        print(f"{made.store}: its tables are of version {made.version} already")
    elif made.before:
        print(f"{made.store}: tables brought from version {made.before} to {made.version}")
    else:
        print(f"{made.store}: tables made, version {made.version}")
    return 0


Wait = Annotated[
    bool, typer.Option("--wait", help="Wait while another writes to the store, instead of failing.")
]


def owner() -> str:
    """Under which name a command writes to a store, as others are told who wait for it."""
    return f"nexus store on {socket.gethostname()} (process {os.getpid()})"
