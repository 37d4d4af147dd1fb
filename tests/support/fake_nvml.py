"""An NVML without a GPU: the constants of the real binding, and a machine that a test sets up.

Only what the driver would do is made up; names, codes and structures are pynvml's own, so that a
call which the binding does not have fails here as it would there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 1 << 30


@dataclass
class FakeGpu:
    """A GPU as its driver would describe it; `missing` has the calls that it does not support."""

    uuid: str
    name: str = "NVIDIA H200"
    minor: int = 0
    util: int = 97
    power_mw: int = 688_120
    memory: tuple[int, int] = (141 * GIB, 70 * GIB)  # total, used
    pids: list[int] = field(default_factory=list)
    missing: set[str] = field(default_factory=lambda: {"nvmlDeviceGetFanSpeed"})
    fails: dict[str, int] = field(default_factory=dict)  # a call and the error's code
    has_gpm: bool = True
    instances: list[FakeMig] = field(default_factory=list)
    gpm_percent: float = 50.0


@dataclass
class FakeMig:
    """A MIG instance."""

    instance: int
    name: str = "NVIDIA H200 MIG 1g.18gb"
    memory: tuple[int, int] = (16 * GIB, 2 * GIB)
    pids: list[int] = field(default_factory=list)
    has_gpm: bool = True
    missing: set[str] = field(default_factory=set)
    fails: dict[str, int] = field(default_factory=dict)
    uuid: str = "MIG-1"
    gpm_percent: float = 25.0


class FakeNvml:
    """A module like pynvml; unknown attributes are the real module's constants."""

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = list(gpus)
        self.open = 0
        self.gone: int | None = None  # the code that every call fails with
        self.asked: list[str] = []
        self.xids: deque[tuple[FakeGpu, int, int]] = deque()
        self.samples = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name)):
            raise NotImplementedError(f"the fake has no {name}")
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:  # noqa: N802
        self._answer("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def _answer(self, call: str, device: FakeGpu | FakeMig | None = None) -> None:
        self.asked.append(call)
        if self.gone is not None:
            raise pynvml.NVMLError(self.gone)
        if device is not None and call in device.fails:
            raise pynvml.NVMLError(device.fails[call])
        if device is not None and call in device.missing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _call(name: str, give: Callable[..., Any]) -> None:
    """Add a call about a device, which can fail as the device says."""

    def call(self: FakeNvml, device: Any, *arguments: Any, **named: Any) -> Any:
        self._answer(name, device)
        return give(self, device, *arguments, **named)

    setattr(FakeNvml, name, call)


def _memory(nv: FakeNvml, device: Any, version: int) -> SimpleNamespace:
    total, used = device.memory
    return SimpleNamespace(total=total, used=used, reserved=GIB, free=total - used - GIB)


_FIELDS = {
    pynvml.NVML_FI_DEV_MEMORY_TEMP: (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 52),
    pynvml.NVML_FI_DEV_PERF_POLICY_POWER: (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 7_000_000),
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL: (
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
        0,
    ),
    pynvml.NVML_FI_DEV_POWER_INSTANT: (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 700_500),
}


def _fields(nv: FakeNvml, device: Any, ids: list[int]) -> Any:
    answers = (pynvml.c_nvmlFieldValue_t * len(ids))()
    for answer, wanted in zip(answers, ids, strict=True):
        answer.fieldId = wanted
        answer.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        if wanted in _FIELDS:
            answer.nvmlReturn = pynvml.NVML_SUCCESS
            answer.valueType, value = _FIELDS[wanted]
            answer.value.ullVal = value
    return answers


def _not_there(nv: FakeNvml, device: Any, index: int) -> Any:
    if index >= len(device.instances):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return device.instances[index]


def _processes(nv: FakeNvml, device: Any) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=GIB) for pid in device.pids]


_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetUUID": lambda nv, d: d.uuid,
    "nvmlDeviceGetName": lambda nv, d: d.name,
    "nvmlDeviceGetMinorNumber": lambda nv, d: d.minor,
    "nvmlDeviceGetPciInfo": lambda nv, d: SimpleNamespace(busId=b"00000000:18:00.0"),
    "nvmlDeviceGetMigMode": lambda nv, d: [int(bool(d.instances))] * 2,
    "nvmlDeviceGetMaxMigDeviceCount": lambda nv, d: 7,
    "nvmlDeviceGetMigDeviceHandleByIndex": _not_there,
    "nvmlDeviceGetGpuInstanceId": lambda nv, d: d.instance,
    "nvmlDeviceGetUtilizationRates": lambda nv, d: SimpleNamespace(gpu=d.util, memory=31),
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetPowerUsage": lambda nv, d: d.power_mw,
    "nvmlDeviceGetEnforcedPowerLimit": lambda nv, d: 700_000,
    "nvmlDeviceGetTotalEnergyConsumption": lambda nv, d: 152_340_118_322,
    "nvmlDeviceGetTemperature": lambda nv, d, sensor: 61,
    "nvmlDeviceGetClockInfo": lambda nv, d, kind: {1: 1980, 2: 3201}.get(kind, 1500),
    "nvmlDeviceGetCurrentClocksEventReasons": lambda nv, d: 4,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda nv, d: 4,
    "nvmlDeviceGetPerformanceState": lambda nv, d: 0,
    "nvmlDeviceGetEncoderUtilization": lambda nv, d: [0, 100_000],
    "nvmlDeviceGetDecoderUtilization": lambda nv, d: [3, 100_000],
    "nvmlDeviceGetFanSpeed": lambda nv, d: 40,
    "nvmlDeviceGetTotalEccErrors": lambda nv, d, kind, counter: kind,
    "nvmlDeviceGetRemappedRows": lambda nv, d: (0, 1, 0, 0),
    "nvmlDeviceGetPcieReplayCounter": lambda nv, d: 2,
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda nv, d: 5,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda nv, d: 16,
    "nvmlDeviceGetPcieThroughput": lambda nv, d, counter: 1000 + counter,
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetComputeRunningProcesses_v3": _processes,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": lambda nv, d: [],
    "nvmlDeviceRegisterEvents": lambda nv, d, kinds, events: None,
    "nvmlGpmQueryDeviceSupport": lambda nv, d: SimpleNamespace(isSupportedDevice=d.has_gpm),
}
for _name, _give in _CALLS.items():
    _call(_name, _give)


class _Answers(FakeNvml):
    """The calls that are about no device or keep state."""

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        self._answer("nvmlSystemGetDriverVersion")
        return b"580.159.04"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        self._answer("nvmlDeviceGetHandleByIndex", self.gpus[index])
        return self.gpus[index]

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        self._answer("nvmlEventSetCreate")
        return "events"

    def nvmlEventSetFree(self, events: str) -> None:  # noqa: N802
        self._answer("nvmlEventSetFree")

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> SimpleNamespace:  # noqa: N802
        self._answer("nvmlEventSetWait_v2")
        if not self.xids:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        gpu, xid, instance = self.xids.popleft()
        kind = pynvml.nvmlEventTypeXidCriticalError
        return SimpleNamespace(device=gpu, eventType=kind, eventData=xid, gpuInstanceId=instance)

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:  # noqa: N802
        self.samples += 1
        return SimpleNamespace(of=None)

    def nvmlGpmSampleFree(self, sample: SimpleNamespace) -> None:  # noqa: N802
        self.samples -= 1

    def nvmlGpmSampleGet(self, device: FakeGpu, sample: SimpleNamespace) -> None:  # noqa: N802
        self._answer("nvmlGpmSampleGet", device)
        sample.of = device

    def nvmlGpmMigSampleGet(  # noqa: N802
        self, device: FakeGpu, instance: int, sample: SimpleNamespace
    ) -> None:
        self._answer("nvmlGpmMigSampleGet", device)
        sample.of = next(mig for mig in device.instances if mig.instance == instance)

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:  # noqa: N802
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(32)]
        return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def nvmlGpmMetricsGet(self, asked: SimpleNamespace) -> SimpleNamespace:  # noqa: N802
        self._answer("nvmlGpmMetricsGet", asked.sample2.of)
        assert asked.version == pynvml.NVML_GPM_METRICS_GET_VERSION
        assert asked.sample1.of is asked.sample2.of
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = asked.sample2.of.gpm_percent
            if metric.metricId == pynvml.NVML_GPM_METRIC_DFMA_TENSOR_UTIL:
                metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        return asked


def machine(*gpus: FakeGpu) -> FakeNvml:
    """A machine with these GPUs and a driver."""
    return _Answers(*gpus)
