"""`nexus cluster status`: brokers, controller and what is not well, in one screen."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from nexus.cli.cluster.running import run, size
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile, SetOption
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cluster.etcd.operating import Operator
from nexus.cluster.port import Report, View

app = single_app()

SHOWN_MOST: Final = 8


@app.command()
def status(*, config: ConfigFile = None, set_: SetOption = None, json: JsonFlag = False) -> int:
    """Show the brokers of a cluster, who controls it, and which partitions are not well.

    \b
    Examples:
      nexus cluster status
      nexus cluster status --set cluster.etcd_endpoints=etcd-1:2379,etcd-2:2379
    """

    async def look(operator: Operator, _: str) -> dict[str, object]:
        return _document(operator.view)

    found = run(config, set_, look)
    if json:
        print_json(found)
    else:
        _print(found)
    return 1 if found["offline"] else 0


def _document(view: View) -> dict[str, object]:
    states = {
        f"{topic}/{number}": state
        for (topic, number), state in sorted(view.partitions.items())
        if topic in view.topics and number < view.topics[topic].partitions
    }
    leads = Counter(state.leader for state in states.values())
    traffic = {node: _traffic(report) for node, report in view.reports.items()}
    holds = Counter(node for state in states.values() for node in state.replicas)
    known = sorted({*view.members, *holds})
    return {
        "controller": view.controller,
        "topics": len(view.topics),
        "partitions": len(states),
        "brokers": [
            {
                "id": node,
                "address": f"{member.host}:{member.port}" if member is not None else None,
                "rack": member.rack if member is not None else None,
                "state": _state(view, node),
                "leads": leads[node],
                "holds": holds[node],
                "bytes_in": traffic.get(node, (0, 0))[0],
                "bytes_out": traffic.get(node, (0, 0))[1],
            }
            for node in known
            for member in [view.members.get(node)]
        ],
        "offline": [name for name, s in states.items() if s.leader not in view.members],
        "under_replicated": [name for name, s in states.items() if s.is_under_replicated],
        "moving": [name for name, s in states.items() if s.target],
        "damaged": [
            f"{name} on {node}" for node, r in sorted(view.reports.items()) for name in r.damaged
        ],
    }


def _traffic(report: Report) -> tuple[float, float]:
    rows = report.loads.values()
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


def _state(view: View, node: int) -> str:
    if node not in view.members:
        return "away"
    return "leaving" if node in view.leaving else "live"


def _print(found: dict[str, object]) -> None:
    brokers = found["brokers"]
    assert isinstance(brokers, list)
    columns = ("id", "address", "rack", "state", "leads", "holds")
    rows = [
        [
            *(broker[column] for column in columns),
            *(f"{size(int(broker[way]))}/s" for way in ("bytes_in", "bytes_out")),
        ]
        for broker in brokers
    ]
    print_table((*columns, "in", "out"), rows)
    print(
        f"controller {found['controller']}, topics: {found['topics']},"
        f" partitions: {found['partitions']}"
    )
    for what in ("offline", "under_replicated", "moving", "damaged"):
        names = found[what]
        assert isinstance(names, list)
        shown = names if what == "damaged" else list(_runs(names))
        more = f" and {len(shown) - SHOWN_MOST} more" if len(shown) > SHOWN_MOST else ""
        count = f"{len(names)}: " if names else ""
        print(f"{what.replace('_', ' ')}: {count}{', '.join(shown[:SHOWN_MOST]) or 'none'}{more}")


def _runs(names: list[str]) -> Iterator[str]:
    """Partitions of one topic together, as in `topic/0-11`."""
    places = sorted((topic, int(number)) for topic, _, number in (n.rpartition("/") for n in names))
    for _, together in groupby(enumerate(places), key=lambda one: (one[1][0], one[1][1] - one[0])):
        (topic, first), *_, (_, last) = [*(place for _, place in together)] * 2
        yield f"{topic}/{first}" + (f"-{last}" if last > first else "")
