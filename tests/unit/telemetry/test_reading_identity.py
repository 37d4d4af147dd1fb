"""A reading's identity, and a hash of it that never changes."""

import pyarrow.compute as pc

from nexus.telemetry.identity import IDENTITY_COLUMNS, identity_hash, series_hash
from nexus.telemetry.normalise import normalise
from nexus.telemetry.reading import plain
from support.readings import NOON_US, fleet, readings

ONE = {
    "uuid": "GPU-5fd4f087-86f3-7a43-b711-4771313afc50",
    "source_metric": "DCGM_FI_DEV_GPU_UTIL",
    "timestamp": NOON_US,
}
# Computed apart, by hand, from the documented recipe; they may never change.
EXPECTED = [
    "b7ce38f6bff8db0703de65b70ab2f6bb",
    "8ef7628bce4be67455dab17bc2e04433",
    "38dd239ab0ae70e002db4dfeeb28fa40",
    "e4566bb7d03bc9a4cd5f91758db22512",
]
EXPECTED_SERIES = "d45f6bfa1f4d23912e7be32355a3660d"


def hashes(*rows: dict[str, object]) -> list[str]:
    return [digest.hex() for digest in identity_hash(normalise(readings(*rows))).to_pylist()]


def test_the_hashes_are_the_ones_in_stored_data() -> None:
    assert (
        hashes(
            ONE,
            ONE | {"timestamp": NOON_US + 1},
            ONE | {"pod": "träin-0", "namespace": "n", "container": "c", "mig": "3"},
            ONE | {"timestamp": -1},
        )
        == EXPECTED
    )
    assert series_hash(normalise(readings(ONE)))[0].as_py().hex() == EXPECTED_SERIES


def test_whatever_a_reading_says_besides_is_the_same_reading() -> None:
    other = {"source_value": 5.0, "hostname": "h", "labels": '{"a":"b"}', "ingested": 1}
    renamed = {"source_metric": "DCGM_FI_DEV_GPU_UTIL_RATIO"}
    assert len(set(hashes(ONE, ONE | other, ONE | renamed))) == 1


def test_each_column_of_the_identity_makes_another_reading() -> None:
    changed = [{name: "x"} for name in ("uuid", "mig", "namespace", "pod", "container")]
    link = {"source_metric": "DCGM_FI_DEV_NVLINK_BANDWIDTH_L1"}
    other = {"source_metric": "DCGM_FI_DEV_NVLINK_BANDWIDTH_L2"}
    rows = [ONE, *(ONE | row for row in changed), ONE | link, ONE | other]
    rows.append(ONE | {"timestamp": NOON_US + 1})
    assert len(set(hashes(*rows))) == len(rows)


def test_text_cannot_flow_from_one_column_into_the_next() -> None:
    assert len(set(hashes(ONE | {"pod": "ab"}, ONE | {"namespace": "a", "pod": "b"}))) == 2


def test_a_fleets_readings_all_have_their_own_hash() -> None:
    table = normalise(fleet(5000, gpus=64))
    assert pc.count_distinct(identity_hash(table)).as_py() == 5000
    assert len(plain(table).group_by(list(IDENTITY_COLUMNS)).aggregate([])) == 5000


def test_the_hash_does_not_depend_on_how_the_table_is_held() -> None:
    table = normalise(fleet(300, gpus=16))
    assert identity_hash(table).equals(identity_hash(plain(table)))
    assert identity_hash(table.slice(100, 50)).equals(identity_hash(table)[100:150])
    assert len(identity_hash(table.slice(0, 0))) == 0
