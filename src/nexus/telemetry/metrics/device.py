"""What a GPU is: its clocks, temperatures, power, energy and memory."""

from typing import Final

from nexus.telemetry.metrics.declare import Metric, counter, gauge
from nexus.telemetry.units import BYTES, CELSIUS, COUNT, HERTZ, JOULE, PERCENT, RATIO, WATT

_MIB: Final = "MiB"
_MEMORY_MAX: Final = 16 * 1024.0**4  # 16 TiB: well above a GPU with all of its host's memory
_CLOCK_MAX: Final = 2e10
_POWER_MAX: Final = 1e4


def _clock(name: str, description: str, old: str, new: str, *more: str) -> Metric:
    sources = {f"DCGM_FI_DEV_{old}": "MHz", f"DCGM_FI_DEV_{new}": HERTZ}
    return gauge(name, HERTZ, _CLOCK_MAX, description, sources | dict.fromkeys(more, "MHz"))


def _temperature(name: str, description: str, *fields: str) -> Metric:
    sources = dict.fromkeys(fields, CELSIUS)
    return gauge(name, CELSIUS, 200.0, description, sources, low=-50.0)


def _power(name: str, description: str, *fields: str) -> Metric:
    return gauge(name, WATT, _POWER_MAX, description, dict.fromkeys(fields, WATT))


def _memory(name: str, description: str, old: str, new: str, *more: str) -> Metric:
    sources = {f"DCGM_FI_DEV_{old}": _MIB, f"DCGM_FI_DEV_{new}": BYTES}
    return gauge(name, BYTES, _MEMORY_MAX, description, sources | dict.fromkeys(more, _MIB))


def _state(name: str, high: float, description: str, *fields: str) -> Metric:
    return gauge(name, COUNT, high, description, dict.fromkeys(fields, COUNT))


METRICS: Final = (
    _clock(
        "sm_clock", "Clock of the multiprocessors", "SM_CLOCK", "SM_CLOCK_HERTZ", "dcgm_sm_clock"
    ),
    _clock(
        "memory_clock",
        "Clock of the device memory",
        "MEM_CLOCK",
        "MEMORY_CLOCK_HERTZ",
        "dcgm_memory_clock",
    ),
    _clock("video_clock", "Clock of the video engines", "VIDEO_CLOCK", "VIDEO_CLOCK_HERTZ"),
    _clock(
        "sm_clock_target",
        "Multiprocessor clock that applications asked for",
        "APP_SM_CLOCK",
        "SM_APP_CLOCK_HERTZ",
    ),
    _clock(
        "memory_clock_target",
        "Memory clock that applications asked for",
        "APP_MEM_CLOCK",
        "MEMORY_APP_CLOCK_HERTZ",
    ),
    _clock(
        "sm_clock_max",
        "Highest clock of the multiprocessors",
        "MAX_SM_CLOCK",
        "SM_MAX_CLOCK_HERTZ",
    ),
    _clock(
        "memory_clock_max",
        "Highest clock of the device memory",
        "MAX_MEM_CLOCK",
        "MEMORY_MAX_CLOCK_HERTZ",
    ),
    _clock(
        "video_clock_max",
        "Highest clock of the video engines",
        "MAX_VIDEO_CLOCK",
        "VIDEO_MAX_CLOCK_HERTZ",
    ),
    _temperature(
        "gpu_temperature",
        "Temperature of the GPU's die",
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
        "dcgm_gpu_temp",
    ),
    _temperature(
        "memory_temperature",
        "Temperature of the device memory",
        "DCGM_FI_DEV_MEMORY_TEMP",
        "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS",
        "dcgm_memory_temp",
    ),
    _temperature(
        "gpu_temperature_max",
        "Highest temperature at which the GPU may work",
        "DCGM_FI_DEV_GPU_MAX_OP_TEMP",
        "DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS",
    ),
    _temperature(
        "memory_temperature_max",
        "Highest temperature at which the device memory may work",
        "DCGM_FI_DEV_MEM_MAX_OP_TEMP",
        "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS",
    ),
    _temperature(
        "gpu_temperature_margin",
        "Degrees that are left before the GPU slows down",
        "DCGM_FI_DEV_GPU_TEMP_LIMIT",
        "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS",
    ),
    _temperature(
        "slowdown_temperature",
        "Temperature at which the GPU slows down",
        "DCGM_FI_DEV_SLOWDOWN_TEMP",
        "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS",
    ),
    _temperature(
        "shutdown_temperature",
        "Temperature at which the GPU shuts down",
        "DCGM_FI_DEV_SHUTDOWN_TEMP",
        "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS",
    ),
    gauge(
        "fan_speed",
        RATIO,
        2.0,
        "Speed of the fan as a share of its nominal top speed, which it may exceed",
        {"DCGM_FI_DEV_FAN_SPEED": PERCENT, "DCGM_FI_DEV_FAN_SPEED_RATIO": RATIO},
    ),
    _power(
        "power",
        "Power that the board draws, averaged by the driver",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_BOARD_POWER_WATTS",
        "dcgm_power_usage",
    ),
    _power(
        "power_instant",
        "Power that the board draws at this moment",
        "DCGM_FI_DEV_POWER_USAGE_INSTANT",
        "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS",
    ),
    _power(
        "power_limit",
        "Power limit that is in force",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS",
    ),
    _power(
        "power_limit_asked",
        "Power limit that was set",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS",
    ),
    _power(
        "power_limit_min",
        "Lowest power limit that can be set",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS",
    ),
    _power(
        "power_limit_max",
        "Highest power limit that can be set",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS",
    ),
    _power(
        "power_limit_default",
        "Power limit that the board comes with",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
        "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS",
    ),
    counter(
        "energy",
        JOULE,
        "Energy that the GPU has used since its driver was loaded",
        {
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "mJ",
            "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": JOULE,
            "dcgm_total_energy_consumption": "mJ",
        },
    ),
    _memory("memory_total", "Size of the device memory", "FB_TOTAL", "FB_CAPACITY_BYTES"),
    _memory("memory_used", "Device memory in use", "FB_USED", "FB_USED_BYTES", "dcgm_fb_used"),
    _memory(
        "memory_free", "Device memory that is free", "FB_FREE", "FB_FREE_BYTES", "dcgm_fb_free"
    ),
    _memory(
        "memory_reserved",
        "Device memory that the driver and firmware keep",
        "FB_RESERVED",
        "FB_RESERVED_BYTES",
    ),
    gauge(
        "memory_used_ratio",
        RATIO,
        1.0,
        "Device memory in use as a share of what is not reserved",
        # The old name says percent and has always meant a ratio.
        {"DCGM_FI_DEV_FB_USED_PERCENT": RATIO, "DCGM_FI_DEV_FB_USED_RATIO": RATIO},
    ),
    _memory("bar1_total", "Size of the BAR1 window", "BAR1_TOTAL", "BAR1_CAPACITY_BYTES"),
    _memory("bar1_used", "BAR1 window in use", "BAR1_USED", "BAR1_USED_BYTES"),
    _memory("bar1_free", "BAR1 window that is free", "BAR1_FREE", "BAR1_FREE_BYTES"),
    _state(
        "performance_state",
        15,
        "Performance state; 0 is the fastest",
        "DCGM_FI_DEV_PSTATE",
        "DCGM_FI_DEV_GPU_PSTATE",
    ),
    _state(
        "compute_mode",
        3,
        "Who may use the GPU: anyone, one process or nobody",
        "DCGM_FI_DEV_COMPUTE_MODE",
        "DCGM_FI_DEV_GPU_COMPUTE_MODE",
    ),
    _state(
        "persistence_mode",
        1,
        "Whether the driver stays loaded without clients",
        "DCGM_FI_DEV_PERSISTENCE_MODE",
        "DCGM_FI_DEV_GPU_PERSISTENCE_MODE",
    ),
    _state("mig_mode", 1, "Whether the GPU can be cut into instances", "DCGM_FI_DEV_MIG_MODE"),
    _state(
        "mig_slices_max",
        64,
        "Instances that the GPU can be cut into",
        "DCGM_FI_DEV_MIG_MAX_SLICES",
    ),
    _state("cc_mode", 2, "Whether confidential computing is on", "DCGM_FI_DEV_CC_MODE"),
    _state(
        "vgpu_license",
        1,
        "Whether the virtual GPU has its licence",
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    ),
    _state(
        "vgpu_instance_license",
        100,
        "State of the licence of a virtual GPU's instance",
        "DCGM_FI_DEV_VGPU_INSTANCE_LICENSE_STATE",
        "DCGM_FI_DEV_VGPU_INSTANCE_LICENSE_STATUS",
    ),
    _state(
        "gpu_count",
        1024,
        "GPUs that the host's driver has",
        "DCGM_FI_DEV_COUNT",
        "DCGM_FI_SYSTEM_GPU_QUANTITY",
    ),
)
