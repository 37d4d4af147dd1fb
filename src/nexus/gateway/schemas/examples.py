"""Examples for the API's description."""

from typing import Any, Final

_UUID: Final = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50"
_WHO: Final = {
    "uuid": _UUID,
    "gpu": "0",
    "hostname": "dgx-001",
    "namespace": "team-a",
    "pod": "train-0",
    "container": "trainer",
    "mig": "",
    "cluster": "local-cluster",
    "device": "nvidia0",
    "model": "NVIDIA H200",
}
_TIME: Final = "2025-07-18T20:42:34Z"

GPU: Final[dict[str, Any]] = {
    **_WHO,
    "state": "active",
    "last_seen": _TIME,
    "first_seen": "2025-07-01T00:00:00Z",
    "busy": 0.97,
}
READING: Final[dict[str, Any]] = {
    "timestamp": _TIME,
    "metric": "power",
    "value": 612.4,
    "unit": "W",
    "instance": "",
    **_WHO,
}
ROLLUP: Final[dict[str, Any]] = {
    **READING,
    "timestamp": "2025-07-18T20:42:00Z",
    "value": 604.1,
    "min": 580.0,
    "max": 640.2,
    "mean": 604.1,
    "last": 612.4,
    "count": 6,
    "missing": 0,
}
CLUSTER: Final[dict[str, Any]] = {
    "cluster": "local-cluster",
    "hosts": 4,
    "gpus": 32,
    "active": 20,
    "idle_held": 6,
    "free": 5,
    "unknown": 1,
    "power_w": 11_230.5,
    "busy_mean": 0.61,
    "memory_used": 1.2e12,
    "memory_total": 2.6e12,
    "temperature_max": 71.0,
    "last_seen": _TIME,
}
METRIC: Final[dict[str, Any]] = {
    "name": "power",
    "unit": "W",
    "kind": "gauge",
    "description": "Power that the board draws",
    "sources": [{"name": "DCGM_FI_DEV_POWER_USAGE", "unit": "W"}],
    "collected": True,
}
PROBLEM: Final[dict[str, Any]] = {
    "type": "urn:nexus:problem:bad-parameter",
    "title": "A parameter is not right",
    "status": 400,
    "detail": "metrc: is not a parameter of this; did you mean metric?",
    "instance": "/api/v1/telemetry",
    "errors": [
        {"parameter": "metrc", "message": "is not a parameter of this; did you mean metric?"}
    ],
}
