"""What is read of a GPU: each NVML call, and the DCGM names and units that its answer has.

Values are in the unit that DCGM has for the name (the catalogue's usual one), so that a reading
of NVML and one of an exporter mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from nexus.streamer.sources.nvml_driver import Handle, Nvml

Values = tuple[float, ...]

_DEV: Final = "DCGM_FI_DEV_"
_MIB: Final = 1 << 20


class Reader(NamedTuple):
    """One call and the names of what it gives; `slow` ones block for tens of milliseconds."""

    names: tuple[str, ...]
    read: Callable[[Nvml, Handle], Values]
    mig: bool = False  # a MIG instance has it too
    slow: bool = False


def _reader(
    names: str, read: Callable[[Nvml, Handle], Values], *, mig: bool = False, slow: bool = False
) -> Reader:
    return Reader(tuple(_DEV + name for name in names.split()), read, mig, slow)


def _utilization(nv: Nvml, handle: Handle) -> Values:
    rates = nv.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _memory(nv: Nvml, handle: Handle) -> Values:
    """In version 2 "used" is without what the driver keeps; version 1 is for old drivers."""
    try:
        info = nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2)
    except nv.NVMLError:
        info = nv.nvmlDeviceGetMemoryInfo(handle)
        return info.total / _MIB, info.free / _MIB, info.used / _MIB
    return info.total / _MIB, info.free / _MIB, info.used / _MIB, info.reserved / _MIB


def _watts(call: str) -> Callable[[Nvml, Handle], Values]:
    return lambda nv, handle: (getattr(nv, call)(handle) / 1000,)


def _simple(call: str) -> Callable[[Nvml, Handle], Values]:
    return lambda nv, handle: (getattr(nv, call)(handle),)


def _first(call: str) -> Callable[[Nvml, Handle], Values]:
    """Of a pair the value; the other is the sampling period."""
    return lambda nv, handle: (getattr(nv, call)(handle)[0],)


def _clock(kind: str) -> Callable[[Nvml, Handle], Values]:
    return lambda nv, handle: (nv.nvmlDeviceGetClockInfo(handle, getattr(nv, kind)),)


def _temperature(nv: Nvml, handle: Handle) -> Values:
    return (nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU),)


def _event_reasons(nv: Nvml, handle: Handle) -> Values:
    try:
        return (nv.nvmlDeviceGetCurrentClocksEventReasons(handle),)
    except nv.NVMLError:  # drivers before 535 have it under the older name only
        return (nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle),)


def _ecc(kind: str, counter: str) -> Callable[[Nvml, Handle], Values]:
    return lambda nv, handle: (
        nv.nvmlDeviceGetTotalEccErrors(handle, getattr(nv, kind), getattr(nv, counter)),
    )


def _remapped(nv: Nvml, handle: Handle) -> Values:
    correctable, uncorrectable, pending, failure = nv.nvmlDeviceGetRemappedRows(handle)
    return correctable, uncorrectable, pending, failure


def _pcie(nv: Nvml, handle: Handle) -> Values:
    return (
        nv.nvmlDeviceGetPcieThroughput(handle, nv.NVML_PCIE_UTIL_TX_BYTES),
        nv.nvmlDeviceGetPcieThroughput(handle, nv.NVML_PCIE_UTIL_RX_BYTES),
    )


_CORRECTED: Final = "NVML_MEMORY_ERROR_TYPE_CORRECTED"
_UNCORRECTED: Final = "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"

READERS: Final = (
    _reader("GPU_UTIL MEM_COPY_UTIL", _utilization),
    _reader("FB_TOTAL FB_FREE FB_USED FB_RESERVED", _memory, mig=True),
    _reader("POWER_USAGE", _watts("nvmlDeviceGetPowerUsage")),
    _reader("ENFORCED_POWER_LIMIT", _watts("nvmlDeviceGetEnforcedPowerLimit")),
    _reader("TOTAL_ENERGY_CONSUMPTION", _simple("nvmlDeviceGetTotalEnergyConsumption")),
    _reader("GPU_TEMP", _temperature),
    _reader("SM_CLOCK", _clock("NVML_CLOCK_SM")),
    _reader("MEM_CLOCK", _clock("NVML_CLOCK_MEM")),
    _reader("VIDEO_CLOCK", _clock("NVML_CLOCK_VIDEO")),
    _reader("CLOCKS_EVENT_REASONS", _event_reasons),
    _reader("PSTATE", _simple("nvmlDeviceGetPerformanceState")),
    _reader("ENC_UTIL", _first("nvmlDeviceGetEncoderUtilization")),
    _reader("DEC_UTIL", _first("nvmlDeviceGetDecoderUtilization")),
    _reader("FAN_SPEED", _simple("nvmlDeviceGetFanSpeed")),
    _reader("ECC_SBE_VOL_TOTAL", _ecc(_CORRECTED, "NVML_VOLATILE_ECC"), mig=True),
    _reader("ECC_DBE_VOL_TOTAL", _ecc(_UNCORRECTED, "NVML_VOLATILE_ECC"), mig=True),
    _reader("ECC_SBE_AGG_TOTAL", _ecc(_CORRECTED, "NVML_AGGREGATE_ECC")),
    _reader("ECC_DBE_AGG_TOTAL", _ecc(_UNCORRECTED, "NVML_AGGREGATE_ECC")),
    _reader(
        "CORRECTABLE_REMAPPED_ROWS UNCORRECTABLE_REMAPPED_ROWS ROW_REMAP_PENDING ROW_REMAP_FAILURE",
        _remapped,
    ),
    _reader("PCIE_REPLAY_COUNTER", _simple("nvmlDeviceGetPcieReplayCounter")),
    _reader("PCIE_LINK_GEN", _simple("nvmlDeviceGetCurrPcieLinkGeneration")),
    _reader("PCIE_LINK_WIDTH", _simple("nvmlDeviceGetCurrPcieLinkWidth")),
    # Each of the two measures for 20 ms; where GPM is supported it gives the same for nothing.
    _reader("PCIE_TX_THROUGHPUT PCIE_RX_THROUGHPUT", _pcie, slow=True),
)


class Field(NamedTuple):
    """A value of nvmlDeviceGetFieldValues; `divide` makes its unit DCGM's."""

    name: str
    constant: str
    divide: int = 1


# Asked together, one call a group; an old driver that refuses the newer ones keeps the others.
FIELD_GROUPS: Final = (
    (
        Field(_DEV + "MEMORY_TEMP", "NVML_FI_DEV_MEMORY_TEMP"),
        Field(_DEV + "POWER_VIOLATION", "NVML_FI_DEV_PERF_POLICY_POWER"),
        Field(_DEV + "THERMAL_VIOLATION", "NVML_FI_DEV_PERF_POLICY_THERMAL"),
        Field(_DEV + "SYNC_BOOST_VIOLATION", "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST"),
        Field(_DEV + "BOARD_LIMIT_VIOLATION", "NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT"),
        Field(_DEV + "LOW_UTIL_VIOLATION", "NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION"),
        Field(_DEV + "RELIABILITY_VIOLATION", "NVML_FI_DEV_PERF_POLICY_RELIABILITY"),
        *(
            Field(
                f"{_DEV}NVLINK_{kind}_ERROR_COUNT_TOTAL",
                f"NVML_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL",
            )
            for kind in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
        ),
    ),
    (Field(_DEV + "POWER_USAGE_INSTANT", "NVML_FI_DEV_POWER_INSTANT", divide=1000),),
)

_UNION_MEMBERS: Final = {
    "NVML_VALUE_TYPE_DOUBLE": "dVal",
    "NVML_VALUE_TYPE_UNSIGNED_INT": "uiVal",
    "NVML_VALUE_TYPE_UNSIGNED_LONG": "ulVal",
    "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG": "ullVal",
    "NVML_VALUE_TYPE_SIGNED_LONG_LONG": "sllVal",
    "NVML_VALUE_TYPE_SIGNED_INT": "siVal",
    "NVML_VALUE_TYPE_UNSIGNED_SHORT": "usVal",
}


def read_fields(nv: Nvml, handle: Handle, fields: tuple[Field, ...]) -> Iterator[tuple[str, float]]:
    """The values of those fields that the GPU has."""
    members = {getattr(nv, kind): member for kind, member in _UNION_MEMBERS.items()}
    answers = nv.nvmlDeviceGetFieldValues(handle, [getattr(nv, f.constant) for f in fields])
    for wanted, answer in zip(fields, answers, strict=True):
        member = members.get(answer.valueType)
        if answer.nvmlReturn == nv.NVML_SUCCESS and member is not None:
            yield wanted.name, getattr(answer.value, member) / wanted.divide
