"""`nexus cluster plan`: what would move, before it moves."""

from typing import Annotated

import typer

from nexus.cli.cluster.running import Strategy, document, run, show
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cli.output import JsonFlag, print_json
from nexus.cluster.assignment.moves import Plan
from nexus.cluster.etcd.operating import Operator

app = single_app()


@app.command()
def plan(
    *,
    strategy: Strategy = None,
    without: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="As if this broker were gone.")
    ] = None,
    config: ConfigFile = None,
    set_: SetOption = None,
    json: JsonFlag = False,
) -> int:
    """Show what `nexus cluster rebalance` would move; nothing is changed.

    \b
    Examples:
      nexus cluster plan
      nexus cluster plan --without 3
      nexus cluster plan --strategy modulo --json
    """

    async def decide(operator: Operator, default: str) -> Plan:
        return operator.plan(strategy or default, without or ())

    found = run(config, set_, decide)
    if json:
        print_json(document(found))
    else:
        show(found)
    return 0
