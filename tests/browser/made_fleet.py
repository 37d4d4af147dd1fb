"""A made-up fleet for the dashboard: smooth values as functions of time, without any storage.

Two GPUs of the fleet say nothing (no data), one host has long been silent; names may be hostile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

UNITS = {
    "gpu_util": "ratio",
    "engine_active": "ratio",
    "sm_active": "ratio",
    "tensor_active": "ratio",
    "dram_active": "ratio",
    "memory_util": "ratio",
    "power": "W",
    "gpu_temperature": "C",
    "memory_temperature": "C",
    "energy": "J",
    "memory_used": "B",
    "memory_free": "B",
    "sm_clock": "Hz",
    "memory_clock": "Hz",
    "clock_event_reasons": "count",
    "pcie_tx": "B/s",
    "pcie_rx": "B/s",
    "nvlink_tx": "B/s",
    "xid": "count",
    "pcie_replays": "count",
}
COUNTERS = frozenset({"energy", "pcie_replays"})
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
_MEMORY = 80 * 2**30
# What a metric says when nothing runs, and how much more at full load.
_IDLE_AND_FULL = {
    "gpu_util": (0.0, 1.0),
    "engine_active": (0.0, 1.0),
    "sm_active": (0.0, 0.7),
    "dram_active": (0.0, 0.7),
    "memory_util": (0.0, 0.7),
    "tensor_active": (0.0, 0.4),
    "power": (90.0, 560.0),
    "gpu_temperature": (34.0, 40.0),
    "memory_temperature": (38.0, 42.0),
    "sm_clock": (1.98e9, -2.5e8),
    "memory_clock": (2.619e9, 0.0),
    "pcie_tx": (0.0, 1.2e10),
    "pcie_rx": (0.0, 2.4e10),
    "nvlink_tx": (0.0, 9.0e10),
}
_TEAMS = ("llm-training", "vision", "speech", "")


@dataclass(frozen=True)
class MadeGpu:
    """A GPU of the fleet; `number` decides how it behaves."""

    number: int
    uuid: str
    gpu: str
    hostname: str
    cluster: str
    namespace: str
    pod: str
    silent: bool

    def value(self, metric: str, at_s: float) -> float | None:
        """What it would say at a time."""
        if metric in ("sm_active", "tensor_active") and self.number % 13 == 12:
            return None
        if metric == "energy":
            return 1e9 + at_s % 1e6 * 400
        if metric in ("memory_used", "memory_free"):
            used = _MEMORY * (0.85 if self.pod else 0.004)
            return used if metric == "memory_used" else _MEMORY - used
        busy = self._busy(at_s)
        idle, full = _IDLE_AND_FULL.get(metric, (0.0, 0.0))
        return 4.0 * (busy > 0.8) if metric == "clock_event_reasons" else idle + full * busy

    def _busy(self, at_s: float) -> float:
        if not self.pod or self.number % 11 == 7:
            return 0.0
        wave = math.sin(at_s / 47 + self.number) + 0.4 * math.sin(at_s / 5 + 3 * self.number)
        return min(1.0, max(0.06, 0.72 + 0.2 * wave))

    def state(self, at_s: float) -> str:
        if self.silent:
            return "unknown"
        if self._busy(at_s) >= 0.05:
            return "active"
        return "idle-held" if self.pod else "free"

    def as_json(self, at_s: float) -> dict[str, Any]:
        seen = at_s - (900 if self.silent else 0)
        return {
            "uuid": self.uuid,
            "gpu": self.gpu,
            "device": f"nvidia{self.gpu}",
            "model": "NVIDIA H100 80GB HBM3",
            "hostname": self.hostname,
            "cluster": self.cluster,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": "main" if self.pod else "",
            "mig": "",
            "state": self.state(at_s),
            "last_seen": rfc3339(seen),
            "first_seen": rfc3339(at_s - 86_400),
            "busy": None if self.silent else self._busy(at_s),
        }


@dataclass(frozen=True)
class MadeFleet:
    """Hosts with eight GPUs each."""

    hosts: int
    clusters: int = 1
    hostile: bool = False

    def gpus(self) -> Iterator[MadeGpu]:
        for host in range(self.hosts):
            name = HOSTILE if self.hostile and host == 0 else f"h100-a{host // 40:02}-{host:04}"
            cluster = f"cluster-{'abcdefgh'[host * self.clusters // self.hosts]}"
            for index in range(8):
                number = host * 8 + index
                team = "" if number % 8 == 6 else _TEAMS[host // 2 % len(_TEAMS)]
                yield MadeGpu(
                    number=number,
                    uuid=f"GPU-{number:08x}-4d2f-4a1b-9c3e-5f6a7b8c9d0e",
                    gpu=str(index),
                    hostname=name,
                    cluster=cluster,
                    namespace=HOSTILE if self.hostile and team else team,
                    pod=f"{team}-job-{host // 2}-{index}" if team else "",
                    silent=host == self.hosts - 1 and self.hosts > 2,
                )


def rfc3339(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
