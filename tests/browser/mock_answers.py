"""The API's answers about a made-up fleet, in the shapes of the real ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from browser.made_fleet import COUNTERS, UNITS, MadeGpu, rfc3339

STEPS_S = {"10s": 10, "30s": 30, "1m": 60, "2m": 120, "5m": 300, "10m": 600, "15m": 900}
STEPS_S |= {"30m": 1800, "1h": 3600, "2h": 7200, "6h": 21_600, "12h": 43_200, "1d": 86_400}
SPOKESMEN = 100
KEEPS_S = 6 * 3600  # how far back there are readings
FILTERS = ("uuid", "hostname", "cluster", "namespace")
Query = dict[str, list[str]]


def chosen(gpus: Sequence[MadeGpu], query: Query) -> list[MadeGpu]:
    """The GPUs that a query's filters leave."""
    asked = {name: query[name] for name in FILTERS if query.get(name)}
    return [g for g in gpus if all(getattr(g, name) in said for name, said in asked.items())]


def answer(gpus: Sequence[MadeGpu], path: str, query: Query) -> Any:
    """The body of a GET under /api/v1, or None."""
    now, mine = time.time(), chosen(gpus, query)
    whole: dict[str, Callable[[], Any]] = {
        "metrics": lambda: _list([_metric(name) for name in UNITS]),
        "gpus": lambda: _list([gpu.as_json(now) for gpu in mine]),
        "telemetry": lambda: (_groups if "by" in query else _columns)(mine, query, now),
        "telemetry/latest": lambda: {"data": live_rows(mine, metrics_of(query), now)},
        "telemetry/summary": lambda: _list(_means(gpus, query, now)),
        "pipeline": lambda: _pipeline(now),
        "queue": lambda: _queue(now),
        "quarantine": lambda: _list(_refusals(now)),
    }
    if path in whole:
        return whole[path]()
    named = [gpu for gpu in gpus if path.startswith(f"gpus/{gpu.uuid}")]
    if not named:
        return None
    charts = path.endswith("/telemetry")
    return _columns(named, query, now) if charts else _detail(named[0], now)


def _metric(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "unit": UNITS[name],
        "kind": "counter" if name in COUNTERS else "gauge",
        "description": f"What {name} says",
        "sources": [],
        "collected": True,
    }


def _means(gpus: Sequence[MadeGpu], query: Query, now: float) -> list[dict[str, Any]]:
    middle = (_time(query, "start_time", now) + _time(query, "end_time", now)) / 2
    metric = metrics_of(query)[0]
    return [
        {"uuid": gpu.uuid, "metric": metric, "count": 9, "mean": gpu.value(metric, middle)}
        for gpu in gpus
    ]


def _list(rows: list[Any]) -> dict[str, Any]:
    return {"data": rows, "count": len(rows), "next_cursor": None}


def metrics_of(query: Query) -> list[str]:
    return query["metric"][0].split(",") if "metric" in query else list(UNITS)


def _time(query: Query, name: str, otherwise: float) -> float:
    said = query.get(name)
    return datetime.fromisoformat(said[0]).timestamp() if said else otherwise


def _detail(gpu: MadeGpu, now: float) -> dict[str, Any]:
    at = now - 900 if gpu.silent else now
    latest = [
        {
            "timestamp": rfc3339(at),
            "metric": metric,
            "value": gpu.value(metric, at),
            "unit": unit,
            "uuid": gpu.uuid,
            "gpu": gpu.gpu,
            "hostname": gpu.hostname,
            "mig": "",
            "instance": "",
            "namespace": gpu.namespace,
            "pod": gpu.pod,
            "container": "",
        }
        for metric, unit in UNITS.items()
    ]
    labels = {"driver_version": "550.54.15"}
    return {**gpu.as_json(now), "labels": labels, "latest": latest}


def _columns(gpus: Sequence[MadeGpu], query: Query, now: float) -> dict[str, Any]:
    start, end = _time(query, "start_time", now - 3600), _time(query, "end_time", now)
    resolution = query.get("resolution", ["auto"])[0]
    points = int(query.get("max_points", ["1000"])[0])
    if resolution == "auto":
        fits = [name for name, s in STEPS_S.items() if (end - start) / s <= points]
        resolution = "raw" if end - start <= points else fits[0]
    step = STEPS_S.get(resolution, 1)
    first = -(-max(start, now - KEEPS_S) // step) * step
    last = min(end, now)
    times = [
        first + n * step for n in range(int((last - first) // step) + 1 if first <= last else 0)
    ]
    times = [t for t in times if int(t) % 600 not in range(420, 450)]  # a gap now and then
    series = [
        _series(gpu, metric, [t for t in times if not gpu.silent or t < now - 900], step)
        for gpu in gpus
        for metric in metrics_of(query)
    ]
    return {
        "resolution": resolution,
        "series": [each for each in series if each["time"]],
        "truncated": False,
    }


def _series(gpu: MadeGpu, metric: str, times: list[float], step: int) -> dict[str, Any]:
    values = [gpu.value(metric, at) for at in times]
    spread = 0.0 if step == 1 else 0.06
    return {
        "metric": metric,
        "unit": UNITS.get(metric, ""),
        "uuid": gpu.uuid,
        "gpu": gpu.gpu,
        "hostname": gpu.hostname,
        "mig": "",
        "instance": "",
        "namespace": gpu.namespace,
        "pod": gpu.pod,
        "container": "",
        "time": [int(at * 1000) for at in times],
        "value": values,
        "min": [None if v is None else v * (1 - spread) for v in values] if spread else None,
        "max": [None if v is None else v * (1 + spread) for v in values] if spread else None,
    }


def _groups(gpus: Sequence[MadeGpu], query: Query, now: float) -> dict[str, Any]:
    """The series of each group put together; of a large fleet some GPUs stand for all."""
    columns = _columns(gpus[:: max(1, len(gpus) // SPOKESMEN)], query, now)
    by = [name for name in query["by"][0].split(",") if name != "metric"]
    groups: dict[tuple[str, ...], dict[int, list[float]]] = {}
    for series in columns["series"]:
        points = groups.setdefault((series["metric"], *(series[name] for name in by)), {})
        for at, value in zip(series["time"], series["value"], strict=True):
            points.setdefault(at, []).append(value or 0.0)
    found = [
        {
            **dict(zip(("metric", *by), key, strict=True)),
            "unit": UNITS.get(key[0], ""),
            "time": sorted(points),
            "value": [sum(points[at]) / len(points[at]) for at in sorted(points)],
            "sum": [sum(points[at]) for at in sorted(points)],
        }
        for key, points in groups.items()
    ]
    return {"resolution": columns["resolution"], "groups": found, "truncated": False}


def live_rows(gpus: Sequence[MadeGpu], metrics: list[str], now: float) -> dict[str, list[Any]]:
    pairs = [(gpu, metric) for metric in metrics for gpu in gpus]
    ages = [900 if gpu.silent else 0 for gpu, _ in pairs]
    return {
        "timestamp": [int((now - age) * 1000) for age in ages],
        "metric": [metric for _, metric in pairs],
        "value": [
            gpu.value(metric, now - age) for (gpu, metric), age in zip(pairs, ages, strict=True)
        ],
        "unit": [UNITS.get(metric, "") for _, metric in pairs],
        "uuid": [gpu.uuid for gpu, _ in pairs],
        "gpu": [gpu.gpu for gpu, _ in pairs],
        "hostname": [gpu.hostname for gpu, _ in pairs],
        "mig": [""] * len(pairs),
        "instance": [""] * len(pairs),
        "namespace": [gpu.namespace for gpu, _ in pairs],
        "pod": [gpu.pod for gpu, _ in pairs],
        "container": [""] * len(pairs),
        "cluster": [gpu.cluster for gpu, _ in pairs],
    }


def _pipeline(now: float) -> dict[str, Any]:
    history = [
        {
            "time": int((now - 5 * age) * 1000),
            "readings_per_s": 640 + (age * 37) % 50,
            "lag": (age * 7) % 23,
            "batch_ms": 900 + (age * 131) % 400,
        }
        for age in range(119, -1, -1)
    ]
    names = ("readings", "rollup_1m", "rollup_1h", "latest", "gpus", "quarantine")
    tables = [
        {
            "name": name,
            "version": 412 - n,
            "rows": 2_345_678 // 10**n,
            "files": 42 - n,
            "bytes": 91_234_567 // 10**n,
            "oldest": rfc3339(now - KEEPS_S),
            "newest": rfc3339(now - 2),
            "last_commit": rfc3339(now - 3),
        }
        for n, name in enumerate(names)
    ]
    collector = {
        "reachable": True,
        "url": "http://127.0.0.1:9466",
        "state": "running",
        "problem": "",
        "readings_per_s": 655.2,
        "batch_ms": 1043.0,
        "lag": 17,
        "lag_by_partition": {str(n): n * 5 % 7 for n in range(12)},
        "seconds_since_commit": 1.4,
        "readings": 2_345_678,
        "quarantined": 3,
        "duplicates": 120,
        "late": 8,
        "batches": 2211,
        "failures": 0,
    }
    return {"collector": collector, "tables": tables, "history": history}


def _queue(now: float) -> dict[str, Any]:
    partitions = [
        {"partition": n, "leader": 0, "start": 0, "end": 40_000 + n, "messages": 40_000 + n}
        for n in range(12)
    ]
    topic = {"topic": "gpu-telemetry", "internal": False, "messages": 480_066}
    return {
        "reachable": True,
        "url": "kafka://127.0.0.1:9092/gpu-telemetry",
        "topic": "gpu-telemetry",
        "time": int(now * 1000),
        "topics": [{**topic, "partitions": partitions}],
        "groups": [],
        "problems": [],
    }


def _refusals(now: float) -> list[dict[str, Any]]:
    reasons = ("the value is no number", "the time is more than 10 minutes in the future")
    return [
        {
            "refused": rfc3339(now - 60 * n),
            "reason": reasons[n % 2],
            "stage": "decode",
            "topic": "gpu-telemetry",
            "partition": n,
            "offset": 1000 + n,
            "row": 0,
            "content_type": "application/json",
            "source": "curl",
            "raw": '{"metric_name": "DCGM_FI_DEV_GPU_UTIL", "value": "<b>NaN</b>"}',
        }
        for n in range(3)
    ]
