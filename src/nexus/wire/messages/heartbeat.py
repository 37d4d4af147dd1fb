"""Heartbeat (key 12): keeps a member in its group, and tells it of a rebalance.

Version 3 adds static members, 4 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import int16, int32, message, string


@message("0-4", flexible="4+")
class HeartbeatRequest:
    """A member that is still there."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message("0-4", flexible="4+")
class HeartbeatResponse:
    """Whether it still belongs."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
