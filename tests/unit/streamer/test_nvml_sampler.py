"""What is collected of a GPU, on a machine whose driver is made up."""

from __future__ import annotations

import sys
from pathlib import Path

import pynvml
import pytest

from nexus.streamer.sources.nvml_check import main
from nexus.streamer.sources.nvml_driver import DriverLost
from nexus.streamer.sources.nvml_fields import FIELD_GROUPS, READERS
from nexus.streamer.sources.nvml_gpm import GPM_METRICS
from nexus.streamer.sources.nvml_sampler import RELIST_S, Sampler
from nexus.streamer.sources.pods import PodFinder
from nexus.telemetry.catalogue import SOURCE_NAMES
from nexus.telemetry.reading import SOURCE_SCHEMA
from support.fake_nvml import FakeGpu, FakeMig, FakeNvml, machine

POD = "3f1c2a9e-5b7d-4c1a-9e2f-0a1b2c3d4e5f"
CONTAINER = "ab" * 32
DEV, PROF = "DCGM_FI_DEV_", "DCGM_FI_PROF_"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sampler_of(nv: FakeNvml, tmp_path: Path, clock: Clock | None = None) -> Sampler:
    nv.nvmlInit()
    pods = PodFinder(proc=tmp_path / "proc", logs=tmp_path / "log")
    stamp = 1_700_000_000_000_000
    clock = clock or Clock()
    return Sampler(nv, "node-7", pods=pods, clock_us=lambda: stamp, monotonic=clock)


def sampled(sampler: Sampler) -> dict[tuple[str, str], float]:
    """(uuid or MIG instance, name) to value."""
    return {
        (row["mig"] or row["uuid"], row["source_metric"]): row["source_value"]
        for row in sampler.sample().to_pylist()
    }


def run_in_pod(tmp_path: Path, pid: int, pod: str = POD, container: str = CONTAINER) -> None:
    (tmp_path / "proc" / str(pid)).mkdir(parents=True)
    slice_ = f"kubepods-pod{pod.replace('-', '_')}.slice"
    path = f"0::/kubepods.slice/{slice_}/cri-containerd-{container}.scope"
    (tmp_path / "proc" / str(pid) / "cgroup").write_text(path + "\n")


def test_every_name_is_in_the_catalogue() -> None:
    names = [name for reader in READERS for name in reader.names]
    names += [field.name for group in FIELD_GROUPS for field in group]
    names += [metric.name for metric in GPM_METRICS]
    assert [name for name in names if name not in SOURCE_NAMES] == []
    assert len(names) == len(set(names))


def test_every_constant_and_call_is_one_of_the_real_binding() -> None:
    constants = [field.constant for group in FIELD_GROUPS for field in group]
    constants += [metric.constant for metric in GPM_METRICS]
    assert [name for name in constants if not hasattr(pynvml, name)] == []
    nv = machine(FakeGpu("GPU-a"))
    for reader in READERS:
        reader.read(nv, FakeGpu("GPU-a", missing=set()))
    assert [name for name in nv.asked if not hasattr(pynvml, name)] == []


def test_a_gpu_is_read_in_dcgms_names_and_units(tmp_path: Path) -> None:
    sampler = sampler_of(machine(FakeGpu("GPU-a", minor=3)), tmp_path)
    table = sampler.sample()
    assert table.column_names == [name for name in SOURCE_SCHEMA.names if name != "ingested"]
    found = {row["source_metric"]: row for row in table.to_pylist()}
    power = found[DEV + "POWER_USAGE"]
    assert (power["source_value"], power["unit"]) == (688.12, "W")
    assert (power["uuid"], power["gpu"], power["device"]) == ("GPU-a", "0", "nvidia3")
    assert (power["model"], power["hostname"]) == ("NVIDIA H200", "node-7")
    assert power["labels"] == (
        '{"DCGM_FI_DRIVER_VERSION":"580.159.04","pci_bus_id":"00000000:18:00.0"}'
    )
    assert found[DEV + "FB_USED"]["source_value"] == 70 * 1024
    assert found[DEV + "GPU_UTIL"]["unit"] == "percent"
    assert found[DEV + "MEMORY_TEMP"]["source_value"] == 52
    assert found[DEV + "POWER_USAGE_INSTANT"]["source_value"] == 700.5
    assert found[DEV + "UNCORRECTABLE_REMAPPED_ROWS"]["source_value"] == 1
    assert found[DEV + "ECC_DBE_VOL_TOTAL"]["source_value"] == 1


def test_what_is_not_supported_is_not_collected_and_asked_once(tmp_path: Path) -> None:
    nv = machine(FakeGpu("GPU-a", missing={"nvmlDeviceGetFanSpeed"}))
    sampler = sampler_of(nv, tmp_path)
    for _ in range(3):
        values = sampled(sampler)
    assert ("GPU-a", DEV + "FAN_SPEED") not in values
    assert ("GPU-a", DEV + "THERMAL_VIOLATION") not in values
    assert nv.asked.count("nvmlDeviceGetFanSpeed") == 1


def test_what_fails_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    gpu = FakeGpu("GPU-a", fails={"nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_UNKNOWN})
    sampler = sampler_of(machine(gpu), tmp_path)
    assert ("GPU-a", DEV + "POWER_USAGE") not in sampled(sampler)
    gpu.fails.clear()
    assert sampled(sampler)["GPU-a", DEV + "POWER_USAGE"] == 688.12


def test_profiling_counters_are_ratios_between_two_samples(tmp_path: Path) -> None:
    sampler = sampler_of(machine(FakeGpu("GPU-a")), tmp_path)
    assert ("GPU-a", PROF + "SM_ACTIVE") not in sampled(sampler)
    values = sampled(sampler)
    assert values["GPU-a", PROF + "SM_ACTIVE"] == 0.5
    assert values["GPU-a", PROF + "GR_ENGINE_ACTIVE"] == 0.5
    assert values["GPU-a", PROF + "PCIE_TX_BYTES"] == 50 * (1 << 20)
    assert ("GPU-a", PROF + "PIPE_TENSOR_DFMA_ACTIVE") not in values


def test_bus_throughput_is_measured_the_slow_way_only_without_profiling(tmp_path: Path) -> None:
    nv = machine(FakeGpu("GPU-a", has_gpm=True), FakeGpu("GPU-b", has_gpm=False))
    values = sampled(sampler_of(nv, tmp_path))
    assert ("GPU-a", DEV + "PCIE_TX_THROUGHPUT") not in values
    assert values["GPU-b", DEV + "PCIE_TX_THROUGHPUT"] == 1000


def test_mig_instances_are_read_beside_their_gpu(tmp_path: Path) -> None:
    gpu = FakeGpu(
        "GPU-a", missing={"nvmlDeviceGetUtilizationRates"}, instances=[FakeMig(7), FakeMig(7)]
    )
    gpu.instances.append(FakeMig(9, pids=[41]))
    run_in_pod(tmp_path, 41)
    sampler = sampler_of(machine(gpu), tmp_path)
    sampler.sample()
    rows = [row for row in sampler.sample().to_pylist() if row["mig"] == "9"]
    assert {row["source_metric"] for row in rows} >= {DEV + "FB_USED", PROF + "SM_ACTIVE"}
    assert {(row["uuid"], row["pod"]) for row in rows} == {("GPU-a", POD)}
    assert '"GPU_I_PROFILE":"1g.18gb"' in rows[0]["labels"]
    assert [device.mig for device in sampler.devices] == ["", "7", "9"]
    whole = {row["source_metric"] for row in sampler.sample().to_pylist() if not row["mig"]}
    assert DEV + "POWER_USAGE" in whole
    assert DEV + "GPU_UTIL" not in whole


def test_a_gpu_that_two_pods_share_is_reported_for_each(tmp_path: Path) -> None:
    other = POD.replace("3f1c", "aaaa")
    run_in_pod(tmp_path, 10)
    run_in_pod(tmp_path, 11, pod=other, container="cd" * 32)
    sampler = sampler_of(machine(FakeGpu("GPU-a", pids=[10, 11, 999])), tmp_path)
    rows = [r for r in sampler.sample().to_pylist() if r["source_metric"] == DEV + "GPU_UTIL"]
    assert {row["pod"] for row in rows} == {POD, other}
    assert len(rows) == 2


def test_every_xid_is_counted_and_the_last_is_kept(tmp_path: Path) -> None:
    gpu = FakeGpu("GPU-a")
    nv = machine(gpu)
    sampler = sampler_of(nv, tmp_path)
    assert sampled(sampler)["GPU-a", DEV + "XID_ERRORS"] == 0
    none = 0xFFFFFFFF
    nv.xids.extend([(gpu, 31, none), (gpu, 31, none), (gpu, 79, none)])
    rows = sampler.sample().to_pylist()
    assert [r["source_value"] for r in rows if r["source_metric"] == DEV + "XID_ERRORS"] == [79]
    totals = [r for r in rows if r["source_metric"] == "DCGM_EXP_XID_ERRORS_TOTAL"]
    assert [(r["source_value"], '"xid":"31"' in r["labels"]) for r in totals] == [
        (2, True),
        (1, False),
    ]


def test_without_events_there_are_no_xid_readings(tmp_path: Path) -> None:
    gpu = FakeGpu("GPU-a", missing={"nvmlDeviceRegisterEvents"})
    assert ("GPU-a", DEV + "XID_ERRORS") not in sampled(sampler_of(machine(gpu), tmp_path))


def test_a_gpu_that_fell_off_the_bus_does_not_hide_the_others(tmp_path: Path) -> None:
    lost, well = FakeGpu("GPU-a"), FakeGpu("GPU-b")
    clock = Clock()
    sampler = sampler_of(machine(lost, well), tmp_path, clock)
    calls = [name for name in dir(FakeNvml) if name.startswith("nvmlDevice")]
    lost.fails = dict.fromkeys(
        [*calls, "nvmlDeviceGetHandleByIndex"], pynvml.NVML_ERROR_GPU_IS_LOST
    )
    assert ("GPU-b", DEV + "POWER_USAGE") in sampled(sampler)
    sampler.sample()
    assert [device.uuid for device in sampler.devices] == ["GPU-b"]
    lost.fails = {}
    clock.now += RELIST_S
    assert ("GPU-a", DEV + "POWER_USAGE") in sampled(sampler)


def test_a_driver_that_goes_away_is_said_so(tmp_path: Path) -> None:
    nv = machine(FakeGpu("GPU-a"))
    sampler = sampler_of(nv, tmp_path)
    nv.gone = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    with pytest.raises(DriverLost):
        sampler.sample()


def test_closing_gives_everything_back(tmp_path: Path) -> None:
    nv = machine(FakeGpu("GPU-a"), FakeGpu("GPU-b", instances=[FakeMig(1)]))
    sampler = sampler_of(nv, tmp_path)
    assert nv.samples == 4
    sampler.close()
    assert (nv.samples, nv.open) == (0, 0)
    assert "nvmlEventSetFree" in nv.asked


def test_the_check_prints_readings_beside_what_nvml_says_and_writes_them_as_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nv = machine(FakeGpu("GPU-a"))
    monkeypatch.setitem(sys.modules, "pynvml", nv)
    file = tmp_path / "samples.csv"
    assert main(["--seconds", "0.1", "--interval", "0.1", "--csv", str(file)]) == 0
    printed = capsys.readouterr().out
    (power,) = [line for line in printed.splitlines() if DEV + "POWER_USAGE " in line]
    assert power.split() == ["0", DEV + "POWER_USAGE", "688.12", "W", "power", "mW:", "688120"]
    header, *lines = file.read_text().splitlines()
    assert header.startswith("timestamp,metric_name,gpu_id,device,uuid")
    assert len(lines) > 80
    assert nv.open == 0


def test_the_check_says_in_one_line_that_there_is_no_driver(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert main(["--seconds", "1"]) == 1
        assert capsys.readouterr().err.count("\n") == 1
    else:
        pynvml.nvmlShutdown()
        assert main(["--seconds", "1", "--interval", "0.5"]) == 0
