"""`nexus groups delete`: groups without members, and the offsets they committed."""

from typing import Annotated

import typer

from nexus.cli.confirm import Yes, confirm
from nexus.cli.kafka import REQUEST_TIMEOUT_S, Bootstrap, collect, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json

app = single_app()


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP…", help="One or more groups.")],
    *,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    json: JsonFlag = False,
) -> int:
    """Delete groups that have no members, with their committed offsets.

    \b
    Examples:
      nexus groups delete old-pipeline
      nexus groups delete test-1 test-2 --yes
    """
    cluster, failures = connect(bootstrap), Failures()
    confirm(f"Delete {', '.join(groups)} with their committed offsets?", yes)
    futures = cluster.admin.delete_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_S)
    deleted = collect(futures, failures, lambda name: f"group {name}")
    if json:
        results = {name: "deleted" if name in deleted else "failed" for name in groups}
        print_json([{"group": name, "result": result} for name, result in results.items()])
    else:
        for name in deleted:
            print(f"{name}: deleted")
    return failures.exit_code
