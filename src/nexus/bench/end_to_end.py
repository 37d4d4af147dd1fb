"""Producers and a consumer at once: what goes through a broker, from send call to consumer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nexus.bench.clients import Load, Read, Received, Sent, consume, in_processes, produce


@dataclass(frozen=True, slots=True)
class Through:
    """How it went: the slower of the two sides decides."""

    messages: int
    failed: int
    sending_seconds: float
    reading_seconds: float


def measure(
    load: Load,
    partitions: int,
    producers: int,
    on_progress: Callable[[int], None] | None = None,
) -> Through:
    """`load.messages` over all producers into an empty topic, while a consumer reads them all."""
    each = replace(load, messages=load.messages // producers)
    total = each.messages * producers
    everywhere = tuple(range(partitions))
    read = Read(load.bootstrap, load.topic, everywhere, total)
    received, *sent = in_processes(_run, [read, *[each] * producers], on_progress=on_progress)
    return Through(
        messages=received.messages,
        failed=sum(one.failed for one in sent),
        sending_seconds=max(one.seconds for one in sent),
        reading_seconds=received.seconds,
    )


def _run(work: Load | Read) -> Sent | Received:
    return consume(work) if isinstance(work, Read) else produce(work)
