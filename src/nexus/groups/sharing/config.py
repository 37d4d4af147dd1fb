"""How messages are delivered to a group that shares them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """The same for every partition that a group reads."""

    visibility_ms: int = 30_000  # within which a message is to be acknowledged
    max_deliveries: int = 5
    window: int = 20_000  # from the first message that is not finished to the last delivered
    ordered: bool = False  # one message in flight for each key
    from_latest: bool = False  # a new group starts with what comes then, not with what is there
