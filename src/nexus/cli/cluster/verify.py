"""`nexus cluster verify`: whether all replicas hold the same."""

from typing import Annotated

import typer

from nexus.broker.comparing import Compared, compare
from nexus.cli.cluster.running import run
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cli.output import Failures
from nexus.cluster.etcd.operating import Operator

app = single_app()


@app.command()
def verify(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC…", help="Only these topics.")
    ] = None,
    *,
    config: ConfigFile = None,
    set_: SetOption = None,
) -> int:
    """Read every replica of every partition and compare them, batch by batch.

    \b
    Examples:
      nexus cluster verify
      nexus cluster verify gpu-telemetry
    """
    failures = Failures()

    async def read(operator: Operator, _: str) -> int:
        view = operator.view
        batches = 0
        for name, info in sorted(view.topics.items()):
            is_wanted = not topics or name in topics
            if not is_wanted or "compact" in info.configs.get("cleanup.policy", "delete"):
                continue
            for number in range(info.partitions):
                batches += (await _compare(operator, name, number, failures)).batches
        return batches

    batches = run(config, set_, read)
    print(f"{batches} batches compared, {failures.count or 'no'} differences")
    return failures.exit_code


async def _compare(operator: Operator, topic: str, number: int, failures: Failures) -> Compared:
    view = operator.view
    state = view.state(topic, number)
    held = state.in_sync if state is not None else ()
    places = {n: (m.host, m.port) for n in held if (m := view.members.get(n)) is not None}
    if not places:
        failures.add(f"{topic}/{number}: no replica is in sync")
        return Compared()
    try:
        found = await compare(topic, number, places)
    except (OSError, TimeoutError) as error:
        failures.add(f"{topic}/{number}: {error}")
        return Compared()
    for one in found.differences:
        brokers = ", ".join(map(str, one.brokers))
        failures.add(f"{topic}/{number}: offset {one.offset} is {one.what} on broker {brokers}")
    return found
