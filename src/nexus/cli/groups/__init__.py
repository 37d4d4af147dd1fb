"""`nexus groups`: consumer groups, their lag and their offsets; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "List, describe, reset and delete consumer groups.",
    {name: f"nexus.cli.groups.{name}" for name in ("list", "describe", "reset", "delete")},
)
