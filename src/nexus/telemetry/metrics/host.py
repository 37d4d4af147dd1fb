"""What is around a GPU: whether its exporter answers, the host's processors, the switches."""

from typing import Final

from nexus.telemetry.metrics.declare import Metric, counter, gauge
from nexus.telemetry.units import CELSIUS, COUNT, RATIO, WATT

_CPU: Final = ("cpu", "cpucore")
_SWITCH: Final = ("nvswitch", "link")


def _cpu_util(name: str, what: str, field: str) -> Metric:
    sources = {f"DCGM_FI_DEV_CPU_UTIL_{field}": RATIO}
    return gauge(name, RATIO, 1.05, f"Share of time that a processor {what}", sources, labels=_CPU)


def _switch_errors(name: str, what: str, old: str, new: str) -> Metric:
    sources = {
        f"DCGM_FI_DEV_NVSWITCH_LINK_{old}": COUNT,
        f"DCGM_FI_DEV_NVSWITCH_LINK_{new}_ERROR_TOTAL": COUNT,
    }
    return counter(name, COUNT, f"{what} on a switch's link", sources, labels=_SWITCH)


METRICS: Final = (
    gauge("up", COUNT, 1.0, "1 if the exporter answered, 0 if it did not", {"up": COUNT}),
    _cpu_util("cpu_util", "was busy", "TOTAL"),
    _cpu_util("cpu_user", "ran programs", "USER"),
    _cpu_util("cpu_nice", "ran programs of low priority", "NICE"),
    _cpu_util("cpu_system", "ran the kernel", "SYS"),
    _cpu_util("cpu_interrupts", "served interrupts", "IRQ"),
    gauge(
        "cpu_temperature",
        CELSIUS,
        200.0,
        "Temperature of a processor",
        {"DCGM_FI_DEV_CPU_TEMP_CURRENT": CELSIUS, "DCGM_FI_DEV_CPU_TEMP_CELSIUS": CELSIUS},
        low=-50.0,
        labels=_CPU,
    ),
    gauge(
        "cpu_power",
        WATT,
        1e4,
        "Power that a processor draws",
        {"DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT": WATT, "DCGM_FI_DEV_CPU_POWER_WATTS": WATT},
        labels=_CPU,
    ),
    gauge(
        "cpu_power_limit",
        WATT,
        1e4,
        "Power limit of a processor",
        {"DCGM_FI_DEV_CPU_POWER_LIMIT": WATT, "DCGM_FI_DEV_CPU_POWER_LIMIT_WATTS": WATT},
        labels=_CPU,
    ),
    gauge(
        "switch_temperature",
        CELSIUS,
        200.0,
        "Temperature of a switch",
        {
            "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT": CELSIUS,
            "DCGM_FI_DEV_NVSWITCH_TEMP_CELSIUS": CELSIUS,
        },
        low=-50.0,
        labels=_SWITCH,
    ),
    _switch_errors("switch_link_replays", "Replays", "REPLAY_ERRORS", "REPLAY"),
    _switch_errors("switch_link_recoveries", "Recoveries", "RECOVERY_ERRORS", "RECOVERY"),
    _switch_errors("switch_link_crc_errors", "Checksum errors", "CRC_ERRORS", "CRC"),
    _switch_errors("switch_link_ecc_errors", "Memory errors", "ECC_ERRORS", "ECC"),
)
