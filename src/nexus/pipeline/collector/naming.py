"""Names that outlive a run: where a collector keeps its place, and what its source is told."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from nexus.pipeline.collector.stream import StreamPlan
from nexus.queue.url import KafkaUrl
from nexus.settings.collector import CollectorSection
from nexus.settings.units import parse_duration_ms

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX: Final = 40


def folder_of(queue: str, store: str, partitions: str) -> str:
    """One folder for each queue, store and choice of partitions: readable, and never shared."""
    topic = _PLAIN.sub("-", queue.rpartition("/")[2])[:_NAME_MAX]
    target = _PLAIN.sub("-", store.rstrip("/").rpartition("/")[2]).strip("-")[:_NAME_MAX]
    told = sha256(f"{queue}\n{store}\n{partitions}".encode()).hexdigest()[:10]
    return f"{topic}-to-{target or 'store'}-{told}"


def stream_plan(own: CollectorSection, queue: KafkaUrl, store: str, now_s: float) -> StreamPlan:
    """What the stream of one store reads, where it keeps its place, and when it looks for more."""
    folder = own.data_dir / folder_of(str(queue), store, own.partitions)
    return StreamPlan(
        url=store,
        source=source_options(own, folder, now_s),
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


def start_of(text: str, now_s: float) -> str:
    """`2h` (ago) as a moment; what the source understands stays as it is."""
    try:
        age_ms = parse_duration_ms(text)
    except ValueError:
        return text
    return str(max(0, round(now_s * 1000) - age_ms))
