"""`nexus proxy status`: brokers, circuits and owners as a proxy sees them, in one screen."""

from collections import Counter
from typing import Annotated, Any, Final

import typer

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.errors import NexusError

app = single_app()

TOPICS_MOST: Final = 12
TIMEOUT_S: Final = 10.0
_BROKER: Final = ("id", "address", "healthy", "circuit", "partitions", "in_flight", "problem")


class NoProxy(NexusError):
    """Raised when no proxy answers."""


@app.command()
def status(
    *,
    url: Annotated[
        str, typer.Option(metavar="URL", help="The proxy to ask.")
    ] = "http://127.0.0.1:8080",
    json: JsonFlag = False,
) -> int:
    """Show the brokers as a proxy sees them: health, circuits, partitions owned, what is under way.

    \b
    Examples:
      nexus proxy status
      nexus proxy status --url http://proxy-1:8088 --json
    """
    found = _asked(url)
    if json:
        print_json(found)
    else:
        _print(found)
    return 0 if all(broker["healthy"] for broker in found["brokers"]) else 1


def _asked(url: str) -> dict[str, Any]:
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/status", timeout=TIMEOUT_S)
        found: dict[str, Any] = answer.raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NoProxy(f"no proxy at {url}: {str(error) or type(error).__name__}") from None
    return found


def _print(found: dict[str, Any]) -> None:
    print(
        f"proxy {found['version']}  cluster {found['cluster'] or '-'}  mode {found['mode']}"
        f"  controller {found['controller']}"
    )
    print_table(_BROKER, [[broker[column] for column in _BROKER] for broker in found["brokers"]])
    topics: dict[str, Any] = found["topics"]
    rows = [[name, *_owned(topic["owners"])] for name, topic in topics.items()]
    print_table(("topic", "partitions", "nobody", "owners"), rows[:TOPICS_MOST])
    if len(rows) > TOPICS_MOST:
        print(f"and {len(rows) - TOPICS_MOST} more topics")
    print(
        f"{found['requests']} requests and {found['consumers']} consumers now,"
        f" {found['in_flight_bytes']} bytes in flight"
    )


def _owned(owners: list[int]) -> tuple[int, int, str]:
    """How many partitions, how many of them nobody leads, and how many each broker does."""
    counts = Counter(owner for owner in owners if owner >= 0)
    shown = " ".join(f"{owner}:{count}" for owner, count in sorted(counts.items()))
    return len(owners), len(owners) - counts.total(), shown
