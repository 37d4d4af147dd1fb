"""`nexus cluster verify`: whether all replicas hold the same."""

from typing import Annotated

import typer

from nexus.broker.comparing import Compared, compare
from nexus.broker.comparing_keys import compare_keys
from nexus.cli.cluster.running import run
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cli.output import Failures
from nexus.cluster.etcd.operating import Operator
from nexus.cluster.port import TopicInfo

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

    Brokers compact on their own: of compacted topics the newest value of each key is compared.

    \b
    Examples:
      nexus cluster verify
      nexus cluster verify gpu-telemetry
    """
    failures = Failures()

    async def read(operator: Operator, _: str) -> Compared:
        total = Compared()
        for name, info in sorted(operator.view.topics.items()):
            if topics and name not in topics:
                continue
            for number in range(info.partitions):
                found = await _compare(operator, info, number, failures)
                total.batches += found.batches
                total.keys += found.keys
        return total

    total = run(config, set_, read)
    keys = f" and {total.keys} keys of compacted topics" if total.keys else ""
    print(f"{total.batches} batches{keys} compared, {failures.count or 'no'} differences")
    return failures.exit_code


async def _compare(
    operator: Operator, info: TopicInfo, number: int, failures: Failures
) -> Compared:
    view, topic = operator.view, info.name
    is_compacted = "compact" in info.configs.get("cleanup.policy", "delete")
    state = view.state(topic, number)
    held = state.in_sync if state is not None else ()
    places = {n: (m.host, m.port) for n in held if (m := view.members.get(n)) is not None}
    if not places:
        failures.add(f"{topic}/{number}: no replica is in sync")
        return Compared()
    try:
        found = await (compare_keys if is_compacted else compare)(topic, number, places)
    except (OSError, TimeoutError) as error:
        failures.add(f"{topic}/{number}: {error}")
        return Compared()
    for one in found.differences:
        brokers = ", ".join(map(str, one.brokers))
        failures.add(f"{topic}/{number}: offset {one.offset} is {one.what} on broker {brokers}")
    return found
