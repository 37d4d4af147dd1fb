"""Do the parts answer where they should; and are the ports of those that do not run free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from nexus.errors import NexusError
from nexus.queue.errors import TopicMissing
from nexus.up.asking import Answer
from nexus.up.doctor.findings import Finding, ok, problem, warning
from nexus.up.ports import Address, holder_of_port, is_free

Ask = Callable[[str], Answer]


def check_port(address: Address) -> Finding:
    """A port that `nexus up` would need."""
    name, port = f"port {address.port}", address.port
    if is_free(address.host, port):
        return ok(name, f"free for {address.what}")
    who = holder_of_port(port) or "somebody"
    advice = (
        f"stop that one, or give {address.what} another with {address.flag}{address.alternative}"
    )
    return problem(name, f"for {address.what}: taken by {who}", advice)


def check_part(name: str, url: str, ask: Ask) -> Finding:
    """A part that should run; `url` is its page that says how it is."""
    answer = ask(url)
    if answer.status == 0:
        found = f"no answer from {_host(url)}: {answer.problem}"
        return problem(name, found, "start it, or see its log for why it does not answer")
    if answer.is_ready:
        return ok(name, f"well at {_host(url)}")
    said = answer.body.get("problem") or answer.body.get("status") or f"HTTP {answer.status}"
    found = f"{_host(url)} answers, and is not ready: {said}"
    return warning(name, found, "wait a moment, then see its log")


def check_queue(url: str, partitions: Callable[[], Sequence[int]]) -> Finding:
    """Whether a client gets through to the brokers; `partitions` asks them."""
    try:
        count = len(partitions())
    except TopicMissing:
        advice = "a streamer makes it when it starts, or `nexus topics create`"
        return warning("queue", f"{url} answers, but there is no such topic yet", advice)
    except NexusError as error:
        return problem("queue", str(error), "start a broker there, or give another --queue")
    return ok("queue", f"{url} answers, {count} partitions")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
