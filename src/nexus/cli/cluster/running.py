"""What the commands share: the cluster that the settings name, and how a plan is printed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeVar

import typer

from nexus.cli.config_place import read_config
from nexus.cli.flags import broker_flags
from nexus.cli.output import print_table
from nexus.cluster.assignment.moves import Plan
from nexus.cluster.etcd.operating import Operator, operating
from nexus.settings import load_broker_settings

T = TypeVar("T")
Strategy = Annotated[
    Literal["ring", "modulo", "dynamic"] | None,
    typer.Option(help="How to spread partitions [default: cluster.partition_strategy]."),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", min=1, max=1000, help="Partitions that move at a time.")
]


def run(
    config: str | None,
    assigned: list[str] | None,
    work: Callable[[Operator, str], Awaitable[T]],
) -> T:
    """Do something with the cluster; `work` is also told the strategy that the settings name."""
    flags = broker_flags(
        listen=None, http=None, data_dir=None, fsync=None, assigned=tuple(assigned or ())
    )
    settings = load_broker_settings(read_config(config), flags=flags)
    cluster = settings.cluster

    async def whole() -> T:
        async with operating(cluster.etcd_endpoints, cluster.cluster_id) as operator:
            return await work(operator, cluster.partition_strategy)

    return asyncio.run(whole())


def size(count: float) -> str:
    """Bytes for people."""
    units = ["B", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.3g} {units[0]}"


def document(plan: Plan) -> dict[str, object]:
    """A plan for programs."""
    return {
        "partitions": plan.partitions,
        "replicas": plan.replicas,
        "changes": [change._asdict() for change in plan.changes],
        "copied": plan.copied,
        "leaders_moved": plan.leaders_moved,
    }


def show(plan: Plan) -> None:
    """A plan for people."""
    if not plan.changes:
        print("nothing would move")
        return
    rows = [
        [c.topic, c.partition, ",".join(map(str, c.before)), ",".join(map(str, c.after))]
        for c in plan.changes
    ]
    print_table(("topic", "partition", "now", "then"), rows)
    print(
        f"{len(plan.changes)} of {plan.partitions} partitions change: {plan.copied} of"
        f" {plan.replicas} replicas would be copied, {plan.leaders_moved} leaders would move"
    )
