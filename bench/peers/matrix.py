"""What is measured: a base point, and one thing varied at a time from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from peers.servers.process import Durability, System


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of the load. `label` says what differs from the base."""

    label: str = "base"
    size: int = 200
    lanes: int = 1
    producers: int = 1
    consumers: int = 1
    durability: Durability = Durability.FSYNC

    def words(self) -> str:
        """Its parameters, as the tables print them."""
        return (
            f"{self.size} B, {self.lanes} partition{'s' * (self.lanes > 1)},"
            f" {self.producers} producer{'s' * (self.producers > 1)},"
            f" {self.consumers} consumer{'s' * (self.consumers > 1)}, {self.durability}"
        )


BASE: Final = Point()
# Ten consumers share ten partitions: one partition is one consumer's in most of these systems.
POINTS: Final = (
    BASE,
    replace(BASE, label="16 B", size=16),
    replace(BASE, label="4 KB", size=4096),
    replace(BASE, label="64 KB", size=65536),
    replace(BASE, label="10 partitions", lanes=10),
    replace(BASE, label="4 producers", producers=4),
    replace(BASE, label="10 consumers", lanes=10, consumers=10),
    replace(BASE, label="interval", durability=Durability.INTERVAL),
    replace(BASE, label="no fsync", durability=Durability.NONE),
)
FULL_POINTS: Final = (
    *POINTS,
    replace(BASE, label="10 partitions, 4 producers", lanes=10, producers=4),
    replace(BASE, label="10 of all", lanes=10, producers=4, consumers=10),
    *(
        replace(BASE, label=f"{name}, interval", size=size, durability=Durability.INTERVAL)
        for name, size in (("16 B", 16), ("4 KB", 4096), ("64 KB", 65536))
    ),
    replace(BASE, label="4 producers, interval", producers=4, durability=Durability.INTERVAL),
)
QUICK_POINTS: Final = tuple(
    p for p in POINTS if p.label in ("base", "64 KB", "10 consumers", "no fsync")
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do."""

    points: Sequence[Point]
    repeats: int
    warm_up_s: float
    send_s: float
    read_s: float
    most_bytes: int  # of one measurement's messages, so that those who keep them in memory can
    latency_s: float
    latency_rate: float
    recovery_bytes: int
    recovery_size: int


NORMAL: Final = Scale(POINTS, 5, 0.7, 1.5, 2.5, 256 << 20, 5.0, 1000, 1 << 30, 65536)
FULL: Final = replace(NORMAL, points=FULL_POINTS, send_s=5.0, read_s=10.0, latency_s=15.0)
QUICK: Final = replace(
    NORMAL,
    points=QUICK_POINTS,
    repeats=1,
    warm_up_s=0.3,
    send_s=0.7,
    read_s=2.0,
    most_bytes=64 << 20,
    latency_s=1.5,
    latency_rate=200,
    recovery_bytes=32 << 20,
)


def nearest(system: System, wanted: Durability) -> Durability:
    """What the system offers in its place: the next stronger, else the next weaker (marked)."""
    order = list(Durability)
    at = order.index(wanted)
    candidates = [*reversed(order[: at + 1]), *order[at + 1 :]]
    return next(how for how in candidates if how in system.durability)


def points_for(system: System, points: Sequence[Point]) -> Iterator[tuple[Durability, Point]]:
    """How durable each point is run; a point about durability only where that is offered."""
    for point in points:
        asks = replace(point, label="", durability=BASE.durability) == replace(BASE, label="")
        if asks and point.durability not in system.durability and point != BASE:
            continue
        yield nearest(system, point.durability), point
