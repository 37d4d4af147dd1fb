"""A small fleet to ask about: two hosts with two GPUs each, a MIG GPU, and an hour of readings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateways import Client, asking, store_readings
from support.readings import NOON_US, readings

MINUTE = 60_000_000
NOW_S = NOON_US / 1_000_000 + 60  # a minute after the last reading

Row = dict[str, object]


def device(number: int, host: str = "h1", **more: object) -> Row:
    return {
        "uuid": f"GPU-{number:08x}-aaaa",
        "gpu": str(number % 2),
        "device": f"nvidia{number % 2}",
        "model": "NVIDIA H200" if host == "h1" else "NVIDIA H100",
        "hostname": host,
        "cluster": "c1",
        **more,
    }


BUSY = device(0, namespace="team-a", pod="train-0", container="main", labels='{"rack":"r 7"}')
HELD = device(1, namespace="team-b", pod="idle-0", container="main")
FREE = device(2, "h2")
SILENT = device(3, "h2")
SLICE = {**device(0x10, "h3", cluster="c2"), "mig": "1"}
OTHER_SLICE = {**SLICE, "mig": "2"}


def rows() -> list[Row]:
    made: list[Row] = []
    for minute in range(60, -1, -1):
        at = NOON_US - minute * MINUTE
        for who, percent in ((BUSY, 90.0), (HELD, 0.0), (FREE, 0.0), (SLICE, 50.0)):
            made += [
                {
                    **who,
                    "timestamp": at,
                    "source_metric": "DCGM_FI_DEV_GPU_UTIL",
                    "source_value": percent,
                },
                {
                    **who,
                    "timestamp": at,
                    "source_metric": "DCGM_FI_DEV_POWER_USAGE",
                    "source_value": 100.0 + minute,
                },
            ]
    made.append(
        {
            **SILENT,
            "timestamp": NOON_US - 30 * MINUTE,
            "source_metric": "DCGM_FI_DEV_GPU_UTIL",
            "source_value": 7.0,
        }
    )
    made.append(
        {
            **HELD,
            "pod": "gone-0",
            "timestamp": NOON_US - 180 * MINUTE,
            "source_metric": "DCGM_FI_DEV_GPU_UTIL",
            "source_value": 99.0,
        }
    )
    made.append(
        {
            **OTHER_SLICE,
            "timestamp": NOON_US,
            "source_metric": "DCGM_FI_DEV_GPU_TEMP",
            "source_value": float(0x7FFFFFF0),
        }
    )
    return made


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gateway") / "tables"
    store_readings(folder, readings(*rows()))
    return folder


@pytest.fixture(scope="session")
def client(tables: Path) -> Iterator[Client]:
    with asking(tables, NOW_S) as made:
        yield made
