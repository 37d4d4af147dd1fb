"""Who a GPU is: what its last reading says, and what was known of it before."""

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nexus.pipeline.derive.gpus import SCHEMA, gpus_of
from nexus.telemetry.reading import READING_SCHEMA
from support.derived import (
    HOUR,
    NOON,
    any_readings,
    canonical,
    expected_gpus,
    expected_latest,
    same_rows,
    shuffled,
)

NOBODY = SCHEMA.empty_table()


def seen(readings: pa.Table) -> pa.Table:
    return readings.select(["uuid", "mig", "timestamp"]).rename_columns({"timestamp": "first_seen"})


def latest(readings: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(expected_latest(readings), READING_SCHEMA)


@pytest.mark.parametrize("seed", range(4))
def test_gpus_in_steps_are_gpus_at_once(seed: int) -> None:
    rng = random.Random(seed)
    readings = shuffled(any_readings(rng, 120, HOUR), rng)
    known = NOBODY
    for upto in (40, 80, 120):
        new = readings.slice(upto - 40, 40)
        known = gpus_of(latest(readings.slice(0, upto)), seen(new), known)
    same_rows(known, expected_gpus(readings), "gpus")


def test_a_host_is_no_gpu_but_a_gpu_without_a_uuid_is() -> None:
    of_host = {"uuid": "h1/", "hostname": "h1", "metric": "load"}
    of_gpu = {"uuid": "h1/0", "hostname": "h1", "gpu": "0"}
    readings = canonical([of_host, of_gpu])
    made = gpus_of(readings, seen(readings), NOBODY)
    assert made.column("uuid").to_pylist() == ["h1/0"]


def test_at_one_moment_the_reading_that_names_a_holder_tells_more() -> None:
    readings = canonical(
        [
            {"metric": "a"},
            {"metric": "b", "namespace": "team", "pod": "p"},
            {"metric": "c", "timestamp": NOON - 1, "pod": "z"},
        ]
    )
    [row] = gpus_of(readings, seen(readings), NOBODY).to_pylist()
    assert (row["namespace"], row["pod"]) == ("team", "p")


def test_a_gpu_whose_readings_are_gone_stays_as_last_known() -> None:
    readings = canonical([{"uuid": "GPU-1", "hostname": "old"}, {"uuid": "GPU-2"}])
    known = gpus_of(readings, seen(readings), NOBODY)
    later = canonical([{"uuid": "GPU-2", "hostname": "new", "timestamp": NOON + HOUR}])
    made = gpus_of(later, seen(later), known)
    assert dict(zip(*(made.column(n).to_pylist() for n in ("uuid", "hostname")), strict=True)) == {
        "GPU-1": "old",
        "GPU-2": "new",
    }
    assert pc.all(pc.equal(made.column("first_seen"), known.column("first_seen"))).as_py()
