"""`nexus queue dlq`: the dead letters of a queue; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Look at the dead letters of a queue, put them back, or throw them away.",
    {name: f"nexus.cli.queue.dlq_{name}" for name in ("list", "show", "replay", "purge")},
)
