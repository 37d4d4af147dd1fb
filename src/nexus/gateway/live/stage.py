"""What all clients of a hub share; read and changed in the event loop only."""

from __future__ import annotations

from dataclasses import dataclass

from nexus.gateway.live.follower import Status
from nexus.gateway.live.kitchen import Kitchen
from nexus.gateway.live.metrics import LiveMetrics
from nexus.gateway.live.replay import Replaying
from nexus.gateway.live.ring import Ring


@dataclass(frozen=True, slots=True)
class Paces:
    """How long things may take."""

    heartbeat_s: float = 10.0
    slow_after_s: float = 2.0  # a client that is so far behind gets the newest only
    linger_s: float = 60.0  # how long the queue is followed when nobody looks on


@dataclass(slots=True)
class Stage:
    """The queue as it is followed now, and the hands that serve."""

    topic: str
    kitchen: Kitchen
    replays: Replaying
    metrics: LiveMetrics
    paces: Paces
    ring: Ring | None = None
    status: Status | None = None
    is_stopped: bool = False
