"""What is wrong with a GPU: memory errors, retired and remapped rows, throttling, XID events."""

from typing import Final

from nexus.telemetry.metrics.declare import Metric, counter, gauge
from nexus.telemetry.units import COUNT, SECOND

_FIELD: Final = "DCGM_FI_DEV_"

# Where an error was found, as DCGM abbreviates it.
_PLACES: Final = {
    "L1": ("l1", "the L1 cache"),
    "L2": ("l2", "the L2 cache"),
    "DEV": ("device", "the device memory"),
    "REG": ("register", "the register file"),
    "TEX": ("texture", "the texture memory"),
    "SHM": ("shared", "the shared memory"),
    "CBU": ("branch", "the branch unit"),
    "SRM": ("sram", "the on-chip memories"),
}
_BITS: Final = {"SBE": ("correctable", "corrected"), "DBE": ("uncorrectable", "not correctable")}
_SPANS: Final = {"VOL": ("", "since the driver was loaded"), "AGG": ("_lifetime", "ever")}


def _errors(name: str, description: str, *fields: str) -> Metric:
    sources = {f"{_FIELD}{source}": COUNT for source in fields}
    return counter(name, COUNT, description, sources)


def _flag(name: str, high: float, description: str, *fields: str) -> Metric:
    sources = {f"{_FIELD}{source}": COUNT for source in fields}
    return gauge(name, COUNT, high, description, sources)


def _ecc_totals() -> tuple[Metric, ...]:
    return tuple(
        _errors(
            f"ecc_{bit}{span}",
            f"Memory errors, {how}, {when}",
            f"ECC_{bits}_{spans}_TOTAL",
        )
        for bits, (bit, how) in _BITS.items()
        for spans, (span, when) in _SPANS.items()
    )


def _ecc_places() -> tuple[Metric, ...]:
    return tuple(
        _errors(
            f"ecc_{bit}_{place}{span}",
            f"Memory errors in {where}, {how}, {when}",
            f"ECC_{bits}_{spans}_{places}",
        )
        for places, (place, where) in _PLACES.items()
        for bits, (bit, how) in _BITS.items()
        for spans, (span, when) in _SPANS.items()
    )


def _slowed(name: str, why: str, old: str, new: str = "", event: str = "") -> Metric:
    sources = {f"{_FIELD}{old}": "ns"} if old else {}
    if new:
        sources[f"{_FIELD}{new}_SECONDS_TOTAL"] = SECOND
    if event:
        sources[f"{_FIELD}CLOCKS_EVENT_REASON_{event}_NS"] = "ns"
    return counter(name, SECOND, f"Time that clocks were held down {why}", sources)


METRICS: Final = (
    *_ecc_totals(),
    *_ecc_places(),
    _flag("ecc_mode", 1, "Whether error correction is on", "ECC_CURRENT", "ECC_MODE"),
    _flag("ecc_mode_pending", 1, "Whether it will be after a reboot", "ECC_PENDING"),
    _flag(
        "sram_threshold_exceeded",
        1,
        "Whether on-chip memories had more errors than they may",
        "THRESHOLD_SRM",
        "SRAM_EXCEEDED",
    ),
    _errors(
        "retired_pages_correctable",
        "Pages retired for corrected errors",
        "RETIRED_SBE",
        "PAGE_RETIRED_SBE_TOTAL",
    ),
    _errors(
        "retired_pages_uncorrectable",
        "Pages retired for errors that could not be corrected",
        "RETIRED_DBE",
        "PAGE_RETIRED_DBE_TOTAL",
    ),
    _flag(
        "retired_pages_pending",
        1e6,
        "Pages that wait for a reboot to be retired",
        "RETIRED_PENDING",
        "PAGE_RETIRED_PENDING",
    ),
    _errors(
        "remapped_rows_uncorrectable",
        "Memory rows remapped for errors that could not be corrected",
        "UNCORRECTABLE_REMAPPED_ROWS",
        "ROW_REMAP_UNCORRECTABLE_TOTAL",
    ),
    _errors(
        "remapped_rows_correctable",
        "Memory rows remapped for corrected errors",
        "CORRECTABLE_REMAPPED_ROWS",
        "ROW_REMAP_CORRECTABLE_TOTAL",
    ),
    _flag(
        "row_remap_failure",
        1,
        "Whether remapping a row has failed",
        "ROW_REMAP_FAILURE",
        "ROW_REMAP_FAILED",
    ),
    _flag("row_remap_pending", 1, "Whether a remap waits for a reset", "ROW_REMAP_PENDING"),
    *(
        _flag(
            f"remap_banks_{left}",
            1e6,
            f"Memory banks whose spare rows are {left}",
            f"BANKS_REMAP_ROWS_AVAIL_{left.upper()}",
            f"BANK_REMAP_AVAIL_{left.upper()}",
        )
        for left in ("max", "high", "partial", "low", "none")
    ),
    _flag(
        "memory_unrepairable",
        1,
        "Whether memory is past repair",
        "MEMORY_UNREPAIRABLE",
        "MEMORY_UNREPAIRABLE_FLAG",
    ),
    gauge(
        "xid",
        COUNT,
        100_000.0,
        "The last XID event; it never clears, so an event is a change",
        {
            "DCGM_FI_DEV_XID_ERRORS": COUNT,
            "DCGM_FI_DEV_XID_ERROR": COUNT,
            "dcgm_xid_errors": COUNT,
        },
    ),
    gauge(
        "xid_events_in_window",
        COUNT,
        1e9,
        "XID events within the exporter's window, each number apart",
        {"DCGM_EXP_XID_ERRORS_COUNT": COUNT},
        labels=("xid",),
    ),
    counter(
        "xid_events",
        COUNT,
        "XID events, each number apart",
        {"DCGM_EXP_XID_ERRORS_TOTAL": COUNT},
        labels=("xid",),
    ),
    gauge(
        "clock_event_reasons",
        COUNT,
        float(2**32),
        "Why clocks are held down, one bit a reason",
        {
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": COUNT,
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": COUNT,
        },
    ),
    gauge(
        "clock_events_in_window",
        COUNT,
        1e9,
        "Samples within the exporter's window in which clocks were held down, each reason apart",
        {"DCGM_EXP_CLOCK_EVENTS_COUNT": COUNT, "DCGM_FI_EXP_CLOCK_THROTTLE_REASONS_COUNT": COUNT},
        labels=("clock_event",),
    ),
    counter(
        "clock_events",
        COUNT,
        "Samples in which clocks were held down, each reason apart",
        {"DCGM_EXP_CLOCK_EVENTS_TOTAL": COUNT},
        labels=("clock_event",),
    ),
    gauge(
        "health_status",
        COUNT,
        100.0,
        "What the health checks say, each watch apart: 0 passes, 10 warns, 20 fails",
        {"DCGM_EXP_GPU_HEALTH_STATUS": COUNT},
        labels=("health_watch",),
    ),
    _slowed("slowed_by_power", "by the power limit", "POWER_VIOLATION", "GPU_POWER_THROTTLE"),
    _slowed("slowed_by_heat", "by heat", "THERMAL_VIOLATION", "GPU_THERMAL_THROTTLE"),
    _slowed(
        "slowed_by_sync_boost",
        "to match a slower GPU",
        "SYNC_BOOST_VIOLATION",
        "GPU_SYNC_BOOST_THROTTLE",
    ),
    _slowed(
        "slowed_by_board_limit",
        "by the board's limit",
        "BOARD_LIMIT_VIOLATION",
        "GPU_LIMIT_THROTTLE",
    ),
    _slowed("slowed_by_low_use", "for want of work", "LOW_UTIL_VIOLATION", "GPU_LOW_UTIL_THROTTLE"),
    _slowed(
        "slowed_by_reliability",
        "for reliability",
        "RELIABILITY_VIOLATION",
        "GPU_RELIABILITY_THROTTLE",
    ),
    _slowed(
        "slowed_below_app_clocks",
        "below the application clocks",
        "TOTAL_APP_CLOCKS_VIOLATION",
        "GPU_APP_THROTTLE",
    ),
    _slowed(
        "slowed_below_base_clocks",
        "below the base clocks",
        "TOTAL_BASE_CLOCKS_VIOLATION",
        "GPU_BASE_THROTTLE",
    ),
    _slowed("event_sw_power_cap", "by the software power cap", "", event="SW_POWER_CAP"),
    _slowed("event_sync_boost", "to keep in step with a group", "", event="SYNC_BOOST"),
    _slowed("event_sw_thermal", "by software against heat", "", event="SW_THERM_SLOWDOWN"),
    _slowed("event_hw_thermal", "by hardware against heat", "", event="HW_THERM_SLOWDOWN"),
    _slowed("event_power_brake", "by the power brake", "", event="HW_POWER_BRAKE_SLOWDOWN"),
    _flag(
        "recovery_action",
        100,
        "What the driver says must be done to recover",
        "GPU_RECOVERY_ACTION",
        "GET_GPU_RECOVERY_ACTION",
    ),
    _flag("inforom_valid", 1, "Whether the board's configuration is intact", "INFOROM_VALID"),
)
