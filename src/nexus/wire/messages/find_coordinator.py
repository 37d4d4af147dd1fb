"""FindCoordinator (key 10): names the broker that coordinates a group or a transactional id.

Version 1 adds the kind of key and an error message, 3 flexible fields.
"""

from __future__ import annotations

from nexus.wire.fields import int8, int16, int32, message, string


@message("0-3", flexible="3+")
class FindCoordinatorRequest:
    """A group or a transactional id."""

    key: str = string()
    key_type: int = int8("1+")


@message("0-3", flexible="3+")
class FindCoordinatorResponse:
    """The broker in charge of it."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="1+", default=None)
    node_id: int = int32()
    host: str = string()
    port: int = int32()
