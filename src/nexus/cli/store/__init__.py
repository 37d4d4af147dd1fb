"""`nexus store`: what an operator does with a store; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Make, copy, compare and look after stores.",
    {
        name: f"nexus.cli.store.{name}"
        for name in ("init", "migrate", "copy", "stats", "verify", "vacuum")
    },
)
