"""`nexus queue`: what an operator does with a queue; one file a command."""

from nexus.cli.lazy import lazy_app

app = lazy_app(
    "Look into a queue in etcd, empty it, and cure the etcd under it; at dead letters in Kafka;"
    " come from Redis to either, and go back.",
    {
        **{
            name: f"nexus.cli.queue.{name}"
            for name in ("depth", "peek", "stuck", "drain", "watch", "doctor", "dlq", "export")
        },
        "import": "nexus.cli.queue.import_",
    },
)
