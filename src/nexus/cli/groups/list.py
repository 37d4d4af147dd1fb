"""`nexus groups list`: every group with its type, state and members."""

from nexus.cli.groups.lookup import describe_groups, group_ids, state_name
from nexus.cli.groups.sharing import share_groups
from nexus.cli.kafka import Bootstrap, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table

app = single_app()
COLUMNS = ("group", "type", "state", "members", "assignor")


@app.command()
def list_groups(*, bootstrap: Bootstrap = None, json: JsonFlag = False) -> int:
    """List consumer groups and share groups: type, state, number of members, assignor.

    \b
    Examples:
      nexus groups list
      nexus groups list --json
    """
    cluster, failures = connect(bootstrap), Failures()
    found = describe_groups(cluster, group_ids(cluster, failures), failures)
    shared = share_groups(cluster, failures)
    rows = [
        {
            "group": name,
            "type": "consumer",
            "state": state_name(group),
            "members": len(group.members),
            "assignor": group.partition_assignor or None,
        }
        for name, group in found.items()
    ] + [
        {
            "group": name,
            "type": "share",
            "state": group.state,
            "members": len(group.readers),
            "assignor": None,
        }
        for name, group in shared.items()
    ]
    if json:
        print_json(rows)
    else:
        print_table(COLUMNS, [tuple(row.values()) for row in rows])
    return failures.exit_code
