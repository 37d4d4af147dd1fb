"""What the NVML source collects beside what NVML says itself: a check to run where GPUs are.

`python -m nexus.streamer.sources.nvml --seconds 10` samples as the streamer would, then asks NVML
each value again by a call of its own and prints the two side by side. It needs nvidia-ml-py, and
pyarrow only to be imported; the exit code is 0 if GPUs were sampled, and 1 with one line if they
cannot be.
"""

from __future__ import annotations

import argparse
import csv
import json
import socket
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from nexus.streamer.sources.nvml_driver import Handle, Nvml, NvmlUnavailable, open_driver
from nexus.streamer.sources.nvml_sampler import Row, Sampler
from nexus.telemetry.catalogue import usual_unit

Raw = tuple[str, Callable[[Nvml, Handle], object]]

_DEV: Final = "DCGM_FI_DEV_"
# Written apart from the source's own table: a mistake there must not be made here too.
RAW: Final[Mapping[str, Raw]] = {
    _DEV + "GPU_UTIL": ("utilization.gpu %", lambda nv, h: nv.nvmlDeviceGetUtilizationRates(h).gpu),
    _DEV + "MEM_COPY_UTIL": (
        "utilization.memory %",
        lambda nv, h: nv.nvmlDeviceGetUtilizationRates(h).memory,
    ),
    _DEV + "FB_USED": ("memory.used bytes", lambda nv, h: _memory(nv, h).used),
    _DEV + "FB_FREE": ("memory.free bytes", lambda nv, h: _memory(nv, h).free),
    _DEV + "FB_RESERVED": ("memory.reserved bytes", lambda nv, h: _memory(nv, h).reserved),
    _DEV + "FB_TOTAL": ("memory.total bytes", lambda nv, h: _memory(nv, h).total),
    _DEV + "POWER_USAGE": ("power mW", lambda nv, h: nv.nvmlDeviceGetPowerUsage(h)),
    _DEV + "TOTAL_ENERGY_CONSUMPTION": (
        "energy mJ",
        lambda nv, h: nv.nvmlDeviceGetTotalEnergyConsumption(h),
    ),
    _DEV + "GPU_TEMP": ("temperature C", lambda nv, h: nv.nvmlDeviceGetTemperature(h, 0)),
    _DEV + "SM_CLOCK": ("SM clock MHz", lambda nv, h: nv.nvmlDeviceGetClockInfo(h, 1)),
    _DEV + "MEM_CLOCK": ("memory clock MHz", lambda nv, h: nv.nvmlDeviceGetClockInfo(h, 2)),
    _DEV + "CLOCKS_EVENT_REASONS": (
        "clock event reasons",
        lambda nv, h: hex(nv.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
    ),
    _DEV + "ECC_SBE_VOL_TOTAL": (
        "ECC corrected",
        lambda nv, h: nv.nvmlDeviceGetTotalEccErrors(h, 0, 0),
    ),
    _DEV + "ECC_DBE_VOL_TOTAL": (
        "ECC uncorrected",
        lambda nv, h: nv.nvmlDeviceGetTotalEccErrors(h, 1, 0),
    ),
    _DEV + "PCIE_REPLAY_COUNTER": (
        "PCIe replays",
        lambda nv, h: nv.nvmlDeviceGetPcieReplayCounter(h),
    ),
    _DEV + "ENC_UTIL": ("encoder %", lambda nv, h: nv.nvmlDeviceGetEncoderUtilization(h)[0]),
    _DEV + "DEC_UTIL": ("decoder %", lambda nv, h: nv.nvmlDeviceGetDecoderUtilization(h)[0]),
    _DEV + "ROW_REMAP_PENDING": (
        "remap pending",
        lambda nv, h: nv.nvmlDeviceGetRemappedRows(h)[2],
    ),
    _DEV + "ROW_REMAP_FAILURE": (
        "remap failure",
        lambda nv, h: nv.nvmlDeviceGetRemappedRows(h)[3],
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Sample for a while, then print the last sample beside NVML's own answers."""
    parser = argparse.ArgumentParser(prog="nexus.streamer.sources.nvml", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to sample")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples")
    parser.add_argument("--csv", help="write every sample to this file as long CSV")
    chosen = parser.parse_args(arguments)
    try:
        nv = open_driver()
    except NvmlUnavailable as unavailable:
        print(f"nvml: {unavailable}", file=sys.stderr)
        return 1
    sampler = Sampler(nv, socket.gethostname())
    try:
        return _run(nv, sampler, chosen, sys.stdout)
    finally:
        sampler.close()


def _run(nv: Nvml, sampler: Sampler, chosen: argparse.Namespace, out: TextIO) -> int:
    samples: list[tuple[float, list[Row]]] = []
    took: list[float] = []
    end = time.monotonic() + chosen.seconds
    while True:
        started = time.monotonic()
        samples.append((time.time(), sampler.rows()))
        took.append(time.monotonic() - started)
        if started + chosen.interval >= end and len(samples) > 1:
            break
        time.sleep(max(0.0, started + chosen.interval - time.monotonic()))
    raw = {d.uuid: _raw(nv, d.handle) for d in sampler.devices if not d.mig}
    _print(samples[-1][1], raw, out)
    count = sum(len(rows) for _, rows in samples)
    print(
        f"{len(sampler.devices)} devices, {len(samples)} samples, {count} readings;"
        f" a sample took {1000 * sum(took) / len(took):.1f} ms, {1000 * max(took):.1f} at most",
        file=out,
    )
    if chosen.csv:
        _write_csv(samples, chosen.csv)
    return 0 if count else 1


def _memory(nv: Nvml, handle: Handle) -> Any:
    return nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2)


def _raw(nv: Nvml, handle: Handle) -> dict[str, str]:
    said = {}
    for name, (what, call) in RAW.items():
        try:
            said[name] = f"{what}: {call(nv, handle)}"
        except nv.NVMLError as error:
            said[name] = f"{what}: {error}"
    return said


def _print(rows: list[Row], raw: Mapping[str, Mapping[str, str]], out: TextIO) -> None:
    line = "{:<3} {:<4} {:<46} {:>18} {:<8} {}"
    print(line.format("gpu", "mig", "reading", "value", "unit", "NVML says"), file=out)
    for name, value, of in rows:
        said = "" if of.mig else raw.get(of.uuid, {}).get(name, "")
        shown = f"{value:.6g}" if value < 1e6 else f"{value:.0f}"
        held = f"  [{of.namespace}/{of.pod}/{of.container}]" if of.container else ""
        text = line.format(of.gpu, of.mig, name, shown, usual_unit(name), said)
        print(text + held, file=out)
    collected = {(row.of.uuid, row.name) for row in rows}
    for uuid, answers in raw.items():
        for name, said in answers.items():
            if (uuid, name) not in collected:
                print(line.format("", "", name, "not collected", "", said), file=out)


def _write_csv(samples: list[tuple[float, list[Row]]], path: str) -> None:
    """The long form that the CSV source reads."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write(
            "timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,"
            "container,pod,namespace,value,labels_raw\n"
        )
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        for taken_s, rows in samples:
            stamp = datetime.fromtimestamp(taken_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            writer.writerows(_csv_row(stamp, row) for row in rows)


def _csv_row(stamp: str, row: Row) -> list[str]:
    of, host = row.of, socket.gethostname()
    labels: dict[str, str] = json.loads(of.labels or "{}") | {
        "Hostname": host,
        "UUID": of.uuid,
        "__name__": row.name,
        "device": of.device,
        "gpu": of.gpu,
        "modelName": of.model,
        **({"GPU_I_ID": of.mig} if of.mig else {}),
    }
    text = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels.items()))
    device = [row.name, of.gpu, of.device, of.uuid, of.model, host]
    return [stamp, *device, of.container, of.pod, of.namespace, f"{row.value:.15g}", text]
