"""`nexus cluster`: what an operator does with a cluster of brokers; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Look at a cluster of brokers, plan and make moves, drain a broker.",
    {
        name: f"nexus.cli.cluster.{name}"
        for name in ("status", "plan", "rebalance", "drain", "verify")
    },
)
