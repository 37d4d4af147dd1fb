"""What a partition's log is told to do: sizes, ages, limits. Frozen; a change is a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FOREVER: Final = -1
DAY_MS: Final = 86_400_000

# An index entry holds a position and a relative offset in 32 bits each.
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one partition; `retention_bytes` is this partition's share."""

    segment_bytes: int = 1 << 30
    segment_ms: int = DAY_MS
    retention_ms: int = DAY_MS
    retention_bytes: int = FOREVER
    compact: bool = False
    delete: bool = True
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_message_bytes: int = 1_048_588
    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 << 20
    producer_expiry_ms: int = DAY_MS
    log_append_time: bool = False
    timestamp_after_max_ms: int = 3_600_000
