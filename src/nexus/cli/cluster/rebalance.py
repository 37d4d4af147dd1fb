"""`nexus cluster rebalance`: spread partitions over the brokers there are, while in use."""

from nexus.cli.cluster.running import AtOnce, Strategy, run, size
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cluster.assignment.moves import Plan
from nexus.cluster.etcd.operating import Operator, Progress

app = single_app()


@app.command()
def rebalance(
    *,
    strategy: Strategy = None,
    at_once: AtOnce = 4,
    config: ConfigFile = None,
    set_: SetOption = None,
) -> int:
    """Move partitions to where they should be, a few at a time, and wait until all are there.

    It may be interrupted: what has begun is finished by the brokers, and the next call goes on.

    \b
    Examples:
      nexus cluster rebalance
      nexus cluster rebalance --strategy dynamic --at-once 1
    """

    async def move(operator: Operator, default: str) -> Plan:
        plan = operator.plan(strategy or default, operator.view.leaving)
        await operator.move(plan.changes, at_once, tell)
        return plan

    plan = run(config, set_, move)
    print(f"{len(plan.changes)} partitions moved, {plan.copied} replicas copied")
    return 0


def tell(progress: Progress) -> None:
    """One line of progress."""
    line = f"moved {progress.done}, moving {progress.moving}, waiting {progress.waiting}"
    if progress.all_bytes:
        line += f", {size(progress.copied_bytes)} of {size(progress.all_bytes)} copied"
    if progress.left_s is not None and (progress.moving or progress.waiting):
        line += f", about {progress.left_s:.0f} s left"
    print(line, flush=True)
