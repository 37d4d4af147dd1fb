"""`nexus groups list`: every consumer group with its state and members."""

from nexus.cli.groups.lookup import describe_groups, group_ids, state_name
from nexus.cli.kafka import Bootstrap, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json, print_table

app = single_app()


@app.command()
def list_groups(*, bootstrap: Bootstrap = None, json: JsonFlag = False) -> int:
    """List consumer groups: state, number of members, assignor.

    \b
    Examples:
      nexus groups list
      nexus groups list --json
    """
    cluster, failures = connect(bootstrap), Failures()
    found = describe_groups(cluster, group_ids(cluster, failures), failures)
    rows = [
        {
            "group": name,
            "state": state_name(group),
            "members": len(group.members),
            "assignor": group.partition_assignor or None,
        }
        for name, group in found.items()
    ]
    if json:
        print_json(rows)
    else:
        print_table(("group", "state", "members", "assignor"), [tuple(r.values()) for r in rows])
    return failures.exit_code
