"""What differs between kinds of queues, for the data source: how batches are planned and read.

A planner's places travel through Spark's checkpoint as JSON; nobody but the planner of the same
kind looks into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from nexus.pipeline.source.options import SourceOptions
from nexus.queue.url import EtcdUrl, parse_queue_url

Said = dict[str, Any]


class SourceTask(InputPartition):
    """What one task reads; knows how."""

    def read(self, options: SourceOptions) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class Plan(Protocol):
    """Plans for one query."""

    def start(self) -> Said:
        """Where the query starts: the same whenever it is asked."""

    def end(self, start: Mapping[str, Any]) -> Said:
        """Where a batch read ends."""

    def newest(self) -> Said:
        """The end of what there is, as the queue said last."""

    def stop_at_newest(self) -> None:
        """Go no further than what is there now."""

    def next_end(self, begin: Mapping[str, Any], readings: int | None, *, unlimited: bool) -> Said:
        """How far the batch goes that begins here; as far as it began if there is nothing new."""

    def tasks(self, begin: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[SourceTask]:
        """What each task reads of a batch."""

    def close(self) -> None:
        """Give up the connections; safe to call twice."""


def open_plan(options: SourceOptions) -> Plan:
    """The plan for a queue's kind."""
    if isinstance(parse_queue_url(options.queue), EtcdUrl):
        from nexus.pipeline.source.etcd_plan import EtcdPlan  # noqa: PLC0415 - gRPC is dear

        return EtcdPlan(options)
    from nexus.pipeline.source.kafka_plan import KafkaPlan  # noqa: PLC0415

    return KafkaPlan(options)
