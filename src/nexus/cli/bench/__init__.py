"""`nexus bench`: measures a broker, ours or any other, with clients in processes of their own."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Measure a broker with real clients: throughput, latency, and what it costs the broker.",
    {name: f"nexus.cli.bench.{name}" for name in ("produce", "consume", "latency", "e2e")},
)
