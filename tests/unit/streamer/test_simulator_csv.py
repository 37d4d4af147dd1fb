"""The long CSV of a simulated fleet is the one of real dumps, and says what the table says."""

import csv
import gzip
import io
import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.files import new_file, write_csv
from nexus.streamer.simulator.render import Renderer
from nexus.streamer.sources.port import Shard
from nexus.telemetry.labels import parse_labels
from support.simulated import csv_of

# Short, but with silent and upgraded hosts, blanks, and a model without a memory sensor.
CONFIG = SimulatorConfig(hosts=6, gpus=2, seed=4, interval_ms=1_500, fault_period_ms=60_000)
TICKS = 80


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_of(CONFIG, TICKS).decode())))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    simulation = Simulation(CONFIG)
    return Renderer(simulation).table(simulation.advance(TICKS))


def test_the_header_is_bare_and_every_value_quoted() -> None:
    first, second, *_ = csv_of(CONFIG, 1).split(b"\n")
    columns = b"timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname"
    assert first == columns + b",container,pod,namespace,value,labels_raw"
    assert second.startswith(b'"2025-01-01T00:00:00Z","DCGM_FI_DEV_GPU_UTIL","')
    assert second.count(b'","') == 11
    assert b',Hostname=""' in second
    assert second.endswith(b'"""')


@pytest.mark.parametrize(
    ("cell", "column"),
    [
        ("metric_name", "source_metric"),
        ("gpu_id", "gpu"),
        ("device", "device"),
        ("uuid", "uuid"),
        ("modelName", "model"),
        ("Hostname", "hostname"),
        ("container", "container"),
        ("pod", "pod"),
        ("namespace", "namespace"),
    ],
)
def test_csv_and_table_agree_on_text(
    rows: list[dict[str, str]], table: pa.Table, cell: str, column: str
) -> None:
    assert [row[cell] for row in rows] == table[column].to_pylist()


def test_csv_and_table_agree_on_values_and_times(
    rows: list[dict[str, str]], table: pa.Table
) -> None:
    assert [float(row["value"]) for row in rows] == table["source_value"].to_pylist()
    assert [f"{time:%Y-%m-%dT%H:%M:%S.%f}"[:23] for time in table["timestamp"].to_pylist()] == [
        row["timestamp"].removesuffix("Z").ljust(20, ".").ljust(23, "0")[:23] for row in rows
    ]


def test_csv_and_table_agree_on_labels(rows: list[dict[str, str]], table: pa.Table) -> None:
    parsed = parse_labels(pa.array([row["labels_raw"] for row in rows]))
    assert parsed.error.null_count == len(rows)
    for column in ("labels", "uuid", "hostname", "model", "gpu", "device"):
        assert parsed.columns[column].to_pylist() == table[column].to_pylist()
    names = parsed.columns["source_metric"].to_pylist()
    assert names == [row["metric_name"] for row in rows]


def test_rows_are_metric_by_metric_and_hosts_are_not_contiguous(
    rows: list[dict[str, str]],
) -> None:
    first = [row for row in rows if row["timestamp"] == "2025-01-01T00:00:00Z"]
    names = [row["metric_name"] for row in first]
    assert names == sorted(names, key=names.index)
    hosts = [row["Hostname"] for row in first if row["metric_name"] == names[0]]
    runs = 1 + sum(a != b for a, b in itertools.pairwise(hosts))
    assert runs > len(set(hosts))


def test_a_sensor_that_a_model_lacks_is_not_reported(rows: list[dict[str, str]]) -> None:
    with_sensor = {r["modelName"] for r in rows if "MEMORY_TEMP" in r["metric_name"]}
    assert {r["modelName"] for r in rows} - with_sensor == {"NVIDIA L40S"}


def test_shares_are_disjoint_and_complete(table: pa.Table) -> None:
    uuids: list[set[str]] = []
    count = 0
    for index in range(3):
        simulation = Simulation(CONFIG)
        renderer = Renderer(simulation, Shard(index, 3).owns)
        if renderer.rows_a_tick:
            share = renderer.table(simulation.advance(TICKS))
            uuids.append(set(share["uuid"].to_pylist()))
            count += share.num_rows
    assert count == table.num_rows
    assert set().union(*uuids) == set(table["uuid"].to_pylist())
    assert sum(map(len, uuids)) == len(set().union(*uuids))


def test_gzip_holds_the_same_rows_and_has_no_time_in_it(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"]
    for path in paths:
        with new_file(path) as sink:
            written = write_csv(Simulation(CONFIG), 5, sink)
    packed = [path.read_bytes() for path in paths]
    assert packed[0] == packed[1]
    plain = gzip.decompress(packed[0])
    assert plain == csv_of(CONFIG, 5)
    assert (written.rows, written.bytes) == (plain.count(b"\n") - 1, len(plain))


def test_a_file_that_is_not_whole_leaves_no_trace(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_file(tmp_path / "a.csv") as sink:
            sink.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


class FullDisk(io.BytesIO):
    def write(self, data: object, /) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_told() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_csv(Simulation(CONFIG), TICKS, FullDisk())
