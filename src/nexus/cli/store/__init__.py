"""`nexus store`: what an operator does with a store; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Make the tables of a store, and bring them forward.",
    {name: f"nexus.cli.store.{name}" for name in ("init", "migrate")},
)
