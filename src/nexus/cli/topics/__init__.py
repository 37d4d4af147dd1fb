"""`nexus topics`: what an operator does with topics; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "List, create, change, watch and check topics.",
    {
        name: f"nexus.cli.topics.{name}"
        for name in ("list", "create", "delete", "describe", "alter", "verify", "tail")
    },
)
