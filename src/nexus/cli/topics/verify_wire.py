"""Reads every message through a broker with checksums checked, and reports those that fail."""

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, TopicPartition

from nexus.cli.kafka import Bounds, Cluster, KafkaProblem, explain
from nexus.cli.output import Failures
from nexus.cli.topics.damage import Advance, Damage, Report

_SILENCE_MAX_S: Final = 15.0
_BATCH: Final = 10_000

Partitions = dict[tuple[str, int], Bounds]


def find_bounds(cluster: Cluster, topics: Sequence[str] | None) -> tuple[Partitions, Report]:
    """What there is to read; a partition that does not answer counts as damaged."""
    known = cluster.partitions()
    for topic in topics or []:
        if topic not in known:
            raise KafkaProblem(f"topic {topic} does not exist (see nexus topics list)")
    asked = [TopicPartition(t, p) for t in topics or known for p in known[t]]
    bounds = cluster.bounds(asked, Failures())
    report = Report("messages", partitions=len(asked))
    for partition in asked:
        if (partition.topic, partition.partition) not in bounds:
            what = "its leader does not answer"
            report.damage.append(Damage(partition.topic, partition.partition, -1, what))
    return bounds, report


def verify_wire(cluster: Cluster, bounds: Partitions, report: Report, advance: Advance) -> Report:
    """Until each partition has come to the end it had when this began."""
    pending = {key for key, found in bounds.items() if found.end > found.start}
    if not pending:
        return report
    reader = cluster.reader(**{"check.crcs": True, "enable.partition.eof": True})
    try:
        reader.assign([TopicPartition(t, p, bounds[t, p].start) for t, p in sorted(pending)])
        _read(reader, bounds, pending, report, advance)
    finally:
        reader.close()
    return report


def _read(
    reader: Any,
    bounds: Partitions,
    pending: set[tuple[str, int]],
    report: Report,
    advance: Advance,
) -> None:
    heard_at = time.monotonic()
    while pending and time.monotonic() - heard_at < _SILENCE_MAX_S:
        messages = reader.consume(_BATCH, 0.5)
        if messages:
            heard_at = time.monotonic()
            advance(len(messages))
        for message in messages:
            key = (message.topic(), message.partition())
            if key in pending and _is_last(message, bounds[key].end, report):
                pending.discard(key)
                reader.pause([TopicPartition(*key)])
    for topic, partition in sorted(pending):
        silence = f"nothing came for {_SILENCE_MAX_S:g} s before its end"
        report.damage.append(Damage(topic, partition, -1, silence))


def _is_last(message: Any, end: int, report: Report) -> bool:
    """Counts a message or notes its damage; whether its partition is done with."""
    error = message.error()
    if error is None:
        report.checked += 1
        return bool(message.offset() + 1 >= end)
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.retriable():
        return False
    # The client cannot tell where a damaged batch ends, and would ask for it for ever.
    what = f"{explain(error)}; the rest was not read (--data-dir checks files to the end)"
    report.damage.append(Damage(message.topic(), message.partition(), message.offset(), what))
    return True
