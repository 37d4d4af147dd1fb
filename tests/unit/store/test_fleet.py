"""What GPUs are doing: judged from their last readings, and no news is never idleness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexus.store.errors import Unsupported
from nexus.store.port import ANY, Page, Selection
from nexus.store.states import HELD_BYTES
from support.derived import NOON, canonical
from support.lakes import Lake, opened

ALL = Page(1000)
SECOND = 1_000_000
NOW_S = NOON / SECOND
MIB = 1024 * 1024


def reading(uuid: str, metric: str, value: float | None, ago_s: int = 5, **said: Any) -> Any:
    return {
        "uuid": uuid,
        "gpu": uuid[-1],
        "hostname": "h1",
        "cluster": "c1",
        "metric": metric,
        "value": value,
        "timestamp": NOON - ago_s * SECOND,
        **said,
    }


def states_of(folder: Path, *rows: Any, now_s: float = NOW_S) -> dict[str, tuple[str, Any]]:
    lake = Lake(folder)
    lake.add(canonical(rows))
    with opened(lake, clock=lambda: now_s) as store:
        found = store.snapshot().gpus(ANY, (), ALL).to_pylist()
    return {row["uuid"] + row["mig"]: (row["state"], row["busy"]) for row in found}


def test_states_are_told_apart(tmp_path: Path) -> None:
    found = states_of(
        tmp_path,
        reading("GPU-0", "gpu_util", 0.05),
        reading("GPU-1", "gpu_util", 0.049, pod="p"),
        reading("GPU-2", "gpu_util", 0.0),
        reading("GPU-2", "memory_used", HELD_BYTES + 1.0),
        reading("GPU-3", "gpu_util", 0.0),
        reading("GPU-3", "memory_used", float(HELD_BYTES)),
        reading("GPU-4", "gpu_util", 0.9, ago_s=121),
        reading("GPU-5", "power", 300.0),
        reading("GPU-6", "gpu_util", None),
        reading("GPU-7", "gpu_util", 0.9, ago_s=120),
    )
    assert found == {
        "GPU-0": ("active", 0.05),
        "GPU-1": ("idle-held", 0.049),
        "GPU-2": ("idle-held", 0.0),
        "GPU-3": ("free", 0.0),
        "GPU-4": ("unknown", None),
        "GPU-5": ("unknown", None),
        "GPU-6": ("unknown", None),
        "GPU-7": ("active", 0.9),
    }


def test_the_engine_tells_more_than_utilisation_while_it_is_reported(tmp_path: Path) -> None:
    found = states_of(
        tmp_path,
        reading("GPU-0", "engine_active", 0.5),
        reading("GPU-0", "gpu_util", 0.0),
        reading("GPU-1", "engine_active", None),
        reading("GPU-1", "gpu_util", 0.3),
        reading("GPU-2", "engine_active", 0.9, ago_s=600),
        reading("GPU-2", "gpu_util", 0.0),
    )
    assert found == {
        "GPU-0": ("active", 0.5),
        "GPU-1": ("active", 0.3),
        "GPU-2": ("free", 0.0),
    }


def test_a_pod_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    found = states_of(
        tmp_path,
        reading("GPU-0", "gpu_util", 0.9, ago_s=60, pod="old"),
        reading("GPU-0", "gpu_util", 0.0, ago_s=5),
    )
    assert found == {"GPU-0": ("free", 0.0)}


def test_the_fleet_counts_each_gpu_once_however_many_pods_share_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.add(
        canonical(
            [
                *(
                    reading("GPU-0", metric, value, pod=pod, model="H100")
                    for pod in ("a", "b")
                    for metric, value in (("power", 300.0), ("gpu_util", 0.5))
                ),
                reading("GPU-0", "memory_used", 10.0 * MIB),
                reading("GPU-0", "memory_free", 30.0 * MIB),
                reading("GPU-1", "gpu_util", 0.0, mig="1", model="H100"),
                reading("GPU-1", "gpu_util", 0.7, mig="2", model="H100"),
                reading("GPU-1", "gpu_temperature", 61.0, mig="2"),
                reading("GPU-2", "power", 500.0, ago_s=999, hostname="h2", model="H200"),
            ]
        )
    )
    with opened(lake, clock=lambda: NOW_S) as store:
        view = store.snapshot()
        (whole,) = view.fleet(ANY, ()).to_pylist()
        assert whole["hosts"] == 2
        assert [whole[n] for n in ("gpus", "active", "idle_held", "free", "unknown")] == [
            4,
            2,
            0,
            1,
            1,
        ]
        assert whole["power_w"] == 300.0
        assert whole["busy_mean"] == pytest.approx(0.4)
        assert whole["memory_used"] == 10.0 * MIB
        assert whole["memory_total"] == 40.0 * MIB
        assert whole["temperature_max"] == 61.0
        by_host = view.fleet(ANY, ("cluster", "hostname")).to_pylist()
        assert [(row["cluster"], row["hostname"], row["gpus"]) for row in by_host] == [
            ("c1", "h1", 3),
            ("c1", "h2", 1),
        ]
        assert by_host[1]["power_w"] is None
        h2 = view.fleet(Selection(hostnames=("h2",)), ("model",)).to_pylist()
        assert [(row["model"], row["unknown"]) for row in h2] == [("H200", 1)]
        with pytest.raises(Unsupported, match="metric"):
            view.fleet(ANY, ("metric",))


def test_gpus_are_found_by_state_uuid_and_prefix(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows = [reading(f"GPU-a{n}", "gpu_util", n / 10) for n in range(3)]
    lake.add(canonical([*rows, reading("GPU-b", "gpu_util", 1.0, mig="1")]))
    with opened(lake, clock=lambda: NOW_S) as store:
        view = store.snapshot()
        assert view.gpus(ANY, ("free",), ALL).column("uuid").to_pylist() == ["GPU-a0"]
        assert view.gpus(ANY, ("active", "free"), ALL).num_rows == 4
        assert view.gpu("GPU-b").column("mig").to_pylist() == ["1"]
        assert view.gpu("GPU-").num_rows == 0
        assert view.gpus_named("GPU-a") == ["GPU-a0", "GPU-a1"]
        assert view.gpus_named("GPU-b") == ["GPU-b"]
        assert view.gpus_named("PU-b") == []
        assert view.gpus_named("GPU_b") == []
        assert view.gpus_named("%") == []


def test_a_clock_that_is_ahead_hides_nobody_elses_state(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    version = lake.add(
        canonical(
            [
                reading("GPU-0", "gpu_util", 0.5),
                reading("GPU-1", "gpu_util", 0.5, ago_s=-10 * 86_400),
                reading("GPU-2", "gpu_util", 0.5, ago_s=3 * 3600),
            ]
        )
    )
    for name in ("latest", "gpus"):
        lake.derive(name, version)
    with opened(lake, clock=lambda: NOW_S) as store:
        view = store.snapshot()
        found = {row["uuid"]: row["state"] for row in view.gpus(ANY, (), ALL).to_pylist()}
        assert found == {"GPU-0": "active", "GPU-1": "active", "GPU-2": "unknown"}
        assert view.latest(ANY, ALL).num_rows == 3
        assert view.latest(ANY, ALL, NOON - 60 * SECOND).num_rows == 2
        assert view.latest(ANY, ALL, NOON - 4 * 3600 * SECOND).num_rows == 3
