"""The limits and delays of a group coordinator."""

from __future__ import annotations

from dataclasses import dataclass

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's defaults, but for limits that Kafka leaves open and an initial delay of nothing."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    """How long an empty group waits for more members before its first generation."""
    new_member_timeout_ms: int = 300_000
    """How long a join without a known member id may wait for its rebalance."""
    group_size_max: int = 10_000
    groups_max: int = 100_000
    """Groups of one coordinator, that is, of one partition of the offsets topic."""
    group_id_bytes_max: int = 1_024
    name_bytes_max: int = 1_024
    """Instance ids, protocol types and protocol names."""
    member_metadata_bytes_max: int = 1 << 20
    """What one member's protocols may hold together."""
    group_metadata_bytes_max: int = 64 << 20
    """What all members' protocols may hold together."""
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * _DAY_MS
    offsets_check_interval_ms: int = 600_000
