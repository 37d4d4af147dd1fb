"""The profiling counters of Hopper and later, through NVML's GPM: averages between two samples.

The first tick has no values; a GPU without GPM never has any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from nexus.streamer.sources.nvml_devices import Device
from nexus.streamer.sources.nvml_driver import Nvml

_PROF: Final = "DCGM_FI_PROF_"
_MIB: Final = 1 << 20


class GpmMetric(NamedTuple):
    """A GPM metric and what makes its value DCGM's: percent to ratio, MiB/s to bytes a second."""

    name: str
    constant: str
    multiply: int = 1
    divide: int = 1


def _ratio(name: str, constant: str) -> GpmMetric:
    return GpmMetric(_PROF + name, f"NVML_GPM_METRIC_{constant}", divide=100)


def _rate(name: str, constant: str) -> GpmMetric:
    return GpmMetric(_PROF + name, f"NVML_GPM_METRIC_{constant}", multiply=_MIB)


GPM_METRICS: Final = (
    _ratio("GR_ENGINE_ACTIVE", "GRAPHICS_UTIL"),
    _ratio("SM_ACTIVE", "SM_UTIL"),
    _ratio("SM_OCCUPANCY", "SM_OCCUPANCY"),
    _ratio("PIPE_TENSOR_ACTIVE", "ANY_TENSOR_UTIL"),
    _ratio("PIPE_TENSOR_HMMA_ACTIVE", "HMMA_TENSOR_UTIL"),
    _ratio("PIPE_TENSOR_IMMA_ACTIVE", "IMMA_TENSOR_UTIL"),
    _ratio("PIPE_TENSOR_DFMA_ACTIVE", "DFMA_TENSOR_UTIL"),
    _ratio("DRAM_ACTIVE", "DRAM_BW_UTIL"),
    _ratio("PIPE_FP64_ACTIVE", "FP64_UTIL"),
    _ratio("PIPE_FP32_ACTIVE", "FP32_UTIL"),
    _ratio("PIPE_FP16_ACTIVE", "FP16_UTIL"),
    _ratio("PIPE_INT_ACTIVE", "INTEGER_UTIL"),
    _rate("PCIE_TX_BYTES", "PCIE_TX_PER_SEC"),
    _rate("PCIE_RX_BYTES", "PCIE_RX_PER_SEC"),
    _rate("NVLINK_TX_BYTES", "NVLINK_TOTAL_TX_PER_SEC"),
    _rate("NVLINK_RX_BYTES", "NVLINK_TOTAL_RX_PER_SEC"),
)


def supports_gpm(nv: Nvml, device: Device) -> bool:
    """Whether the GPU (of the MIG instance) has GPM."""
    try:
        support = nv.nvmlGpmQueryDeviceSupport(device.parent or device.handle)
    except nv.NVMLError:
        return False
    return bool(support.isSupportedDevice)


class GpmCounters:
    """Two samples of one device, taken in turn; free them with `close`."""

    def __init__(self, nv: Nvml, device: Device) -> None:
        self._nv = nv
        self._device = device
        self._older = nv.nvmlGpmSampleAlloc()
        self._newer = nv.nvmlGpmSampleAlloc()
        self._primed = False

    def read(self) -> Iterator[tuple[str, float]]:
        """The averages since the last time."""
        self._sample(self._older)
        self._older, self._newer = self._newer, self._older
        if not self._primed:
            self._primed = True
            return
        answer = self._nv.nvmlGpmMetricsGet(self._question())
        for metric, found in zip(GPM_METRICS, answer.metrics, strict=False):
            if found.nvmlReturn == self._nv.NVML_SUCCESS and math.isfinite(found.value):
                yield metric.name, found.value * metric.multiply / metric.divide

    def close(self) -> None:
        """Give the samples back."""
        for sample in (self._older, self._newer):
            self._nv.nvmlGpmSampleFree(sample)

    def _sample(self, into: object) -> None:
        if self._device.mig:
            instance = int(self._device.mig)
            self._nv.nvmlGpmMigSampleGet(self._device.parent, instance, into)
        else:
            self._nv.nvmlGpmSampleGet(self._device.handle, into)

    def _question(self) -> object:
        asked = self._nv.c_nvmlGpmMetricsGet_t()
        asked.version = self._nv.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(GPM_METRICS)
        asked.sample1, asked.sample2 = self._older, self._newer
        for at, metric in enumerate(GPM_METRICS):
            asked.metrics[at].metricId = getattr(self._nv, metric.constant)
        return asked
