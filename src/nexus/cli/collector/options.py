"""Options that the collector's commands share, as their help shows them."""

from pathlib import Path
from typing import Annotated

import typer

Queue = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="kafka://host:port,host:port/topic or etcd://host:port,host:port/prefix"
        " (or MSG_QUEUE_URL). (default kafka://127.0.0.1:9092/gpu-telemetry)",
    ),
]
Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="delta:///path, s3://bucket/prefix or etcd://host:port/prefix?retention=1h; again for"
        " more (default delta:./data/tables)",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="delta:///path or s3://bucket/prefix. (default delta:./data/tables)"
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Readings a batch at most (BATCH_SIZE). (default 1500000)"),
]
CollectorId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="This collector's name (COLLECTOR_ID). (default the host's)"),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="local[N], spark://host:7077 or k8s://host:port. (default local)"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tasks at once (WORKERS). (default a task for each core)"),
]
Memory = Annotated[
    str | None, typer.Option(metavar="1GB", help="Of Spark's Java machine. (default 1GB)")
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Any setting of Spark's own; again for more."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Checkpoints and Spark's log. (default ./data/collector)"),
]
Http = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Health, metrics and status.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="While a collector writes to the store, wait for it to end.")
]
