"""Log compaction: placeholder."""

from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nexus.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a run did."""

    bytes_before: int = 0
    bytes_after: int = 0


def compact(log: PartitionLog, now_ms: int) -> CompactionResult:
    """Not yet."""
    return CompactionResult()
