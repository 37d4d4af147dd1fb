"""`nexus queue`: what an operator does with a queue; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Look into a queue in etcd, empty it, and cure the etcd under it; or at dead letters in Kafka.",
    {
        name: f"nexus.cli.queue.{name}"
        for name in ("depth", "peek", "stuck", "drain", "watch", "doctor", "dlq")
    },
)
