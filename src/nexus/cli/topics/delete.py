"""`nexus topics delete`: topics and their messages, gone; asks first."""

from nexus.cli.confirm import Yes, confirm
from nexus.cli.kafka import REQUEST_TIMEOUT_S, Bootstrap, collect, connect
from nexus.cli.lazy import single_app
from nexus.cli.output import Failures, JsonFlag, print_json
from nexus.cli.topics.options import Topics

app = single_app()


@app.command()
def delete(
    topics: Topics, *, yes: Yes = False, bootstrap: Bootstrap = None, json: JsonFlag = False
) -> int:
    """Delete topics with all their messages.

    \b
    Examples:
      nexus topics delete old-telemetry
      nexus topics delete test-1 test-2 --yes
    """
    cluster, failures = connect(bootstrap), Failures()
    confirm(f"Delete {', '.join(topics)} with all messages?", yes)
    futures = cluster.admin.delete_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
    deleted = collect(futures, failures, lambda name: f"topic {name}")
    if json:
        print_json([{"topic": n, "result": _result(n in deleted)} for n in topics])
    else:
        for name in deleted:
            print(f"{name}: deleted")
    return failures.exit_code


def _result(deleted: bool) -> str:
    return "deleted" if deleted else "failed"
