"""`nexus cluster drain`: empty a broker, so that it can be removed."""

from typing import Annotated

import typer

from nexus.cli.cluster.rebalance import tell
from nexus.cli.cluster.running import AtOnce, run
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cluster.assignment.moves import Plan
from nexus.cluster.etcd.operating import Operator

app = single_app()


@app.command()
def drain(
    broker: Annotated[int, typer.Argument(metavar="ID", help="The broker to empty.")],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let it lead again.")] = False,
    at_once: AtOnce = 4,
    config: ConfigFile = None,
    set_: SetOption = None,
) -> int:
    """Move everything off a broker, and wait until it holds nothing.

    \b
    Examples:
      nexus cluster drain 3
      nexus cluster drain 3 --undo
    """

    async def empty(operator: Operator, _: str) -> Plan | None:
        await operator.set_leaving(broker, is_leaving=not undo)
        if undo:
            return None
        found = operator.drained({broker, *operator.view.leaving})
        await operator.move(found.changes, at_once, tell)
        return found

    plan = run(config, set_, empty)
    if plan is None:
        print(f"broker {broker} may lead again")
    else:
        print(f"broker {broker} holds nothing; stop it when you like")
    return 0
