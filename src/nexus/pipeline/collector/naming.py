"""Names that outlive a run: where a collector keeps its place, and what its source is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from nexus.pipeline.collector.stream import StreamPlan
from nexus.queue.url import EtcdUrl, QueueUrl
from nexus.settings.collector import CollectorSection
from nexus.settings.units import parse_duration_ms

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX: Final = 40
_WAIT_MAX_MS: Final = 1_000  # a stream that is to stop waits no longer


def folder_of(queue: str, store: str, partitions: str) -> str:
    """One folder for each queue, store and choice of partitions: readable, and never shared."""
    topic = _PLAIN.sub("-", queue.rpartition("/")[2])[:_NAME_MAX]
    target = _PLAIN.sub("-", store.rstrip("/").rpartition("/")[2]).strip("-")[:_NAME_MAX]
    told = sha256(f"{queue}\n{store}\n{partitions}".encode()).hexdigest()[:10]
    return f"{topic}-to-{target or 'store'}-{told}"


def queue_name(queue: QueueUrl) -> str:
    """What makes a queue this one: not how messages are put there, nor as whom we read them."""
    if isinstance(queue, EtcdUrl):
        return f"etcd://{','.join(sorted(queue.address.endpoints))}{queue.prefix}"
    return str(queue)


def stream_plan(
    own: CollectorSection,
    queue: QueueUrl,
    store: str,
    now_s: float,
    more: Mapping[str, str] | None = None,
) -> StreamPlan:
    """What the stream of one store reads, where it keeps its place, and when it looks for more.

    `more` is what a store wants of the source.
    """
    folder = own.data_dir / folder_of(queue_name(queue), store, own.partitions)
    waits = {"wait": f"{wait_ms(own)}ms"} if isinstance(queue, EtcdUrl) else {}
    return StreamPlan(
        url=store,
        source={**source_options(own, folder, now_s), **waits, **(more or {})},
        origin=queue.topic,
        checkpoint=folder / "checkpoint",
        trigger_ms=own.trigger_ms,
        available_now=own.available_now,
    )


def source_options(own: CollectorSection, folder: Path, now_s: float) -> dict[str, str]:
    """What the data source is told, from the collector's settings."""
    return {
        "queue": own.queue,
        "form": "narrow",
        "start": start_of(own.start, now_s),
        "start_file": str((folder / "start.json").absolute()),
        "partitions": own.partitions,
        "max_readings": str(own.batch_size),
        "max_bytes": str(own.batch_bytes),
        "max_messages": str(max(own.batch_size, 1)),
        "tasks": str(2 * own.cores),
        "on_gone": own.on_gone,
        "poll_timeout": f"{own.poll_timeout_ms}ms",
    }


def wait_ms(own: CollectorSection) -> int:
    """How long a batch that would be empty waits for the queue's doorbell."""
    return 0 if own.available_now else min(own.trigger_ms, _WAIT_MAX_MS)


def start_of(text: str, now_s: float) -> str:
    """`2h` (ago) as a moment; what the source understands stays as it is."""
    try:
        age_ms = parse_duration_ms(text)
    except ValueError:
        return text
    return str(max(0, round(now_s * 1000) - age_ms))
