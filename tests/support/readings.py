"""Readings for tests: by hand, by the thousand, and any that hypothesis can think of."""

import csv
import gzip
import json
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.resources import files

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nexus.telemetry.labels import COLUMN_OF, canonical_labels, parse_labels, with_labels
from nexus.telemetry.reading import SOURCE_SCHEMA, TIMESTAMP, encoded, source_table

NOON_US = int(datetime(2025, 7, 18, 12, tzinfo=UTC).timestamp()) * 1_000_000
TEXT_COLUMNS = [field.name for field in SOURCE_SCHEMA if pa.types.is_string(field.type)]

# The default counters of dcgm-exporter, with a typical value each.
COUNTERS: dict[str, Callable[[random.Random], float]] = {
    "DCGM_FI_DEV_SM_CLOCK": lambda r: r.choice([1980, 1965, 1830, 345]),
    "DCGM_FI_DEV_MEM_CLOCK": lambda r: 2619,
    "DCGM_FI_DEV_MEMORY_TEMP": lambda r: r.randint(40, 70),
    "DCGM_FI_DEV_GPU_TEMP": lambda r: r.randint(30, 65),
    "DCGM_FI_DEV_POWER_USAGE": lambda r: round(r.uniform(70, 700), 3),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda r: r.randint(10**9, 10**12),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": lambda r: 0,
    "DCGM_FI_DEV_GPU_UTIL": lambda r: r.choice([0, 100, r.randint(0, 100)]),
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda r: r.randint(0, 60),
    "DCGM_FI_DEV_XID_ERRORS": lambda r: 0,
    "DCGM_FI_DEV_FB_FREE": lambda r: r.randint(100, 80_000),
    "DCGM_FI_DEV_FB_USED": lambda r: r.randint(100, 80_000),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": lambda r: r.randint(0, 400_000),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": lambda r: 0,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda r: round(r.random(), 6),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda r: round(r.random(), 6),
    "DCGM_FI_PROF_PCIE_TX_BYTES": lambda r: r.randint(10**6, 10**10),
}


def readings(*rows: Mapping[str, object]) -> pa.Table:
    """A source table of rows that say only what matters to the test."""
    usual: dict[str, object] = {
        "timestamp": NOON_US,
        "source_metric": "DCGM_FI_DEV_GPU_TEMP",
        "source_value": 1.0,
        "ingested": NOON_US,
        **dict.fromkeys(TEXT_COLUMNS, ""),
    }
    usual["source_metric"] = "DCGM_FI_DEV_GPU_TEMP"
    full = [{**usual, **row} for row in rows]
    columns = [pa.array([row[f.name] for row in full], f.type) for f in SOURCE_SCHEMA]
    return pa.table(columns, schema=SOURCE_SCHEMA)


def recording() -> pa.Table:
    """The shipped recording of a real H200, as its CSV has it."""
    path = files("nexus.streamer") / "samples" / "h200_recording.csv.gz"
    rows = list(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()))
    named = {"source_metric": "metric_name", "gpu": "gpu_id", "uuid": "uuid", "device": "device"}
    named |= {"model": "modelName", "hostname": "Hostname", "namespace": "namespace"}
    columns = {column: encoded(pa.array([r[n] for r in rows])) for column, n in named.items()}
    moments = [datetime.fromisoformat(row["timestamp"]) for row in rows]
    table = source_table(
        {
            **columns,
            "timestamp": pa.array(moments, TIMESTAMP),
            "source_value": pa.array([float(row["value"]) for row in rows]),
            "cluster": "local-cluster",
        }
    )
    return with_labels(table, parse_labels(pa.array([row["labels_raw"] for row in rows])))


def fleet(rows: int, gpus: int = 256, seed: int = 1) -> pa.Table:
    """Scrapes of a made-up fleet: hosts of eight GPUs, most of them held by pods."""
    rng = random.Random(seed)
    devices = [_device(number, rng) for number in range(gpus)]
    made: list[dict[str, object]] = []
    moment = NOON_US
    while len(made) < rows:
        for metric, value in COUNTERS.items():
            made += [
                {
                    **device,
                    "source_metric": metric,
                    "source_value": float(value(rng)),
                    "timestamp": moment + 1371 * (number // 8),
                    "ingested": moment + 900_000,
                }
                for number, device in enumerate(devices)
            ]
        moment += 10_000_000
    return readings(*made[:rows])


def _device(number: int, rng: random.Random) -> dict[str, object]:
    host, index = f"dgx-{number // 8:03d}.cluster.internal", number % 8
    held = number % 4 != 0
    labels = {
        "DCGM_FI_DRIVER_VERSION": "580.159.04",
        "instance": f"{host}:9400",
        "job": "dgx_dcgm_exporter",
        "pci_bus_id": f"00000000:{16 * index + 1:02X}:00.0",
    } | ({"pod_uid": f"{rng.getrandbits(64):016x}"} if held else {})
    return {
        "uuid": f"GPU-{rng.getrandbits(128):032x}",
        "gpu": str(index),
        "device": f"nvidia{index}",
        "model": "NVIDIA H200",
        "hostname": host,
        "cluster": "local-cluster",
        "namespace": f"team-{number % 5}" if held else "",
        "pod": f"train-{number % 40}-worker-{index}" if held else "",
        "container": "trainer" if held else "",
        "labels": canonical_labels(labels),
    }


def examples(count: int) -> settings:
    """So many examples, at whatever pace a busy machine makes them."""
    return settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
label_maps = st.dictionaries(text.filter(lambda name: name not in COLUMN_OF), text, max_size=4)
moments = st.integers(
    int(datetime(1, 1, 2, tzinfo=UTC).timestamp()) * 1_000_000,
    int(datetime(9999, 12, 30, tzinfo=UTC).timestamp()) * 1_000_000,
)
doubles = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def any_reading(draw: st.DrawFn) -> dict[str, object]:
    """A reading with anything in it that a reading may have."""
    return {
        **{name: draw(text) for name in TEXT_COLUMNS},
        "source_metric": draw(text.filter(bool)),
        "labels": canonical_labels(draw(label_maps)),
        "source_value": draw(doubles),
        "timestamp": draw(moments),
        "ingested": draw(moments),
    }


any_readings = st.lists(any_reading(), min_size=1, max_size=4).map(lambda rows: readings(*rows))


def message(**fields: object) -> bytes:
    """A JSON message of a good reading, with some fields changed; None leaves one out."""
    usual: dict[str, object] = {
        "timestamp": "2025-07-18T20:42:34Z",
        "metric_name": "DCGM_FI_DEV_GPU_UTIL",
        "gpu_id": "0",
        "uuid": "GPU-5fd4f087",
        "device": "nvidia0",
        "hostname": "mtv5-dgx1-hgpu-031",
        "value": 85.0,
        "labels": {"driver_version": "535.129.03", "model_name": "NVIDIA H100 80GB HBM3"},
    }
    kept = {name: value for name, value in (usual | fields).items() if value is not None}
    return json.dumps(kept).encode()
