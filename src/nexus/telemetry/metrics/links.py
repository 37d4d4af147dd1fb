"""What joins GPUs to hosts and to each other: PCIe, NVLink, chip-to-chip links and the fabric."""

from typing import Final

from nexus.telemetry.metrics.declare import Metric, SourceName, counter, gauge, lane_names
from nexus.telemetry.units import BYTES, BYTES_PER_SECOND, COUNT, RATIO

_FIELD: Final = "DCGM_FI_DEV_"
_LINK: Final = ("link",)
_SPEED_MAX: Final = 1e13


def _lanes(*patterns: tuple[str, str]) -> tuple[SourceName, ...]:
    return tuple(
        name for pattern, unit in patterns for name in lane_names(f"{_FIELD}{pattern}", unit)
    )


def _link_errors(name: str, what: str, old: str, new: str) -> Metric:
    """An NVLink error counter: the sum over all lanes, and each lane as an instance."""
    sources = {f"{_FIELD}NVLINK_{old}_TOTAL": COUNT, f"{_FIELD}NVLINK_{new}_TOTAL": COUNT}
    lanes = _lanes(
        (f"NVLINK_{old}_L{{}}", COUNT),
        (f"NVLINK_{new}_L{{}}_TOTAL", COUNT),
    )
    return counter(name, COUNT, f"NVLink {what}", sources, labels=_LINK, lanes=lanes)


def _link_count(name: str, what: str, old: str, new: str, unit: str = COUNT) -> Metric:
    sources = {f"{_FIELD}NVLINK_COUNT_{old}": unit, f"{_FIELD}NVLINK_{new}": unit}
    return counter(name, unit, f"NVLink {what}", sources, labels=_LINK)


def _state(name: str, high: float, description: str, *fields: str) -> Metric:
    sources = {f"{_FIELD}{source}": COUNT for source in fields}
    return gauge(name, COUNT, high, description, sources)


def _throughput(name: str, description: str, direction: str) -> Metric:
    # Named a bandwidth and typed a counter by exporters, it is a speed in megabytes a second.
    stem = f"NVLINK_{direction}"
    return gauge(
        name,
        BYTES_PER_SECOND,
        _SPEED_MAX,
        description,
        {
            f"{_FIELD}{stem}BANDWIDTH_TOTAL": "MB/s",
            f"{_FIELD}{stem}THROUGHPUT_TOTAL": "MB/s",
            f"{_FIELD}{stem}THROUGHPUT_BYTES_PER_SECOND": BYTES_PER_SECOND,
        },
        labels=_LINK,
        lanes=_lanes(
            (f"{stem}BANDWIDTH_L{{}}", "MB/s"),
            (f"{stem}THROUGHPUT_L{{}}", "MB/s"),
            (f"{stem}THROUGHPUT_L{{}}_BYTES_PER_SECOND", BYTES_PER_SECOND),
        ),
    )


METRICS: Final = (
    counter(
        "pcie_replays",
        COUNT,
        "Packets that had to be sent again over PCIe",
        {
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": COUNT,
            "DCGM_FI_DEV_PCIE_REPLAY_TOTAL": COUNT,
            "dcgm_pcie_replay_counter": COUNT,
        },
    ),
    counter(
        "pcie_correctable_errors",
        COUNT,
        "Errors that PCIe corrected",
        {
            "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS": COUNT,
            "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL": COUNT,
        },
    ),
    _state("pcie_generation", 16, "PCIe generation in use", "PCIE_LINK_GEN"),
    _state("pcie_width", 64, "PCIe lanes in use", "PCIE_LINK_WIDTH"),
    _state("pcie_generation_max", 16, "Highest PCIe generation", "PCIE_MAX_LINK_GEN"),
    _state("pcie_width_max", 64, "Most PCIe lanes", "PCIE_MAX_LINK_WIDTH"),
    _throughput("nvlink_throughput", "Bytes a second over NVLink, both ways", ""),
    _throughput("nvlink_tx_throughput", "Bytes a second sent over NVLink", "TX_"),
    _throughput("nvlink_rx_throughput", "Bytes a second received over NVLink", "RX_"),
    _link_errors(
        "nvlink_flit_errors",
        "flow-control checksum errors",
        "CRC_FLIT_ERROR_COUNT",
        "CRC_FLIT_ERROR",
    ),
    _link_errors(
        "nvlink_data_errors", "data checksum errors", "CRC_DATA_ERROR_COUNT", "CRC_DATA_ERROR"
    ),
    _link_errors("nvlink_replays", "replays", "REPLAY_ERROR_COUNT", "REPLAY_ERROR"),
    _link_errors("nvlink_recoveries", "recoveries", "RECOVERY_ERROR_COUNT", "RECOVERY_ERROR"),
    counter(
        "nvlink_crc_errors",
        COUNT,
        "NVLink checksum errors of the data-link layer",
        {"DCGM_FI_DEV_NVLINK_ERROR_DL_CRC": COUNT, "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL": COUNT},
        labels=_LINK,
    ),
    counter(
        "nvlink_dl_recoveries",
        COUNT,
        "NVLink recoveries of the data-link layer",
        {
            "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY": COUNT,
            "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL": COUNT,
        },
        labels=_LINK,
    ),
    counter(
        "nvlink_dl_replays",
        COUNT,
        "NVLink replays of the data-link layer",
        {"DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY": COUNT, "DCGM_FI_DEV_NVLINK_REPLAY_TOTAL": COUNT},
        labels=_LINK,
    ),
    _link_count("nvlink_tx_packets", "packets sent", "TX_PACKETS", "TX_PACKET_TOTAL"),
    _link_count("nvlink_tx_bytes", "bytes sent", "TX_BYTES", "TX_BYTES_TOTAL", BYTES),
    _link_count("nvlink_rx_packets", "packets received", "RX_PACKETS", "RX_PACKET_TOTAL"),
    _link_count("nvlink_rx_bytes", "bytes received", "RX_BYTES", "RX_BYTES_TOTAL", BYTES),
    _link_count("nvlink_rx_errors", "packets received with errors", "RX_ERRORS", "RX_ERROR_TOTAL"),
    _link_count(
        "nvlink_rx_symbol_errors", "symbol errors", "RX_SYMBOL_ERRORS", "RX_SYMBOL_ERROR_TOTAL"
    ),
    _link_count(
        "nvlink_rx_dropped",
        "packets dropped for want of buffers",
        "RX_BUFFER_OVERRUN_ERRORS",
        "RX_PACKET_DROPPED_TOTAL",
    ),
    _link_count(
        "nvlink_integrity_errors",
        "integrity errors",
        "LOCAL_LINK_INTEGRITY_ERRORS",
        "INTEGRITY_ERROR_TOTAL",
    ),
    _link_count(
        "nvlink_recoveries_done",
        "recoveries that succeeded",
        "LINK_RECOVERY_SUCCESSFUL_EVENTS",
        "RECOVERY_SUCCESSFUL_TOTAL",
    ),
    _link_count(
        "nvlink_recoveries_failed",
        "recoveries that failed",
        "LINK_RECOVERY_FAILED_EVENTS",
        "RECOVERY_FAILED_TOTAL",
    ),
    _link_count(
        "nvlink_effective_errors",
        "errors left after correction",
        "EFFECTIVE_ERRORS",
        "EFFECTIVE_ERROR_TOTAL",
    ),
    *(
        gauge(
            f"nvlink_{kind.lower()}_error_rate",
            RATIO,
            1.0,
            f"NVLink bit errors, {what}, as a share of bits",
            {
                f"DCGM_FI_DEV_NVLINK_COUNT_{kind}_BER_FLOAT": RATIO,
                f"DCGM_FI_DEV_NVLINK_{kind}_BER_RATIO": RATIO,
            },
            labels=_LINK,
        )
        for kind, what in (("SYMBOL", "of symbols"), ("EFFECTIVE", "after correction"))
    ),
    gauge(
        "p2p_status",
        COUNT,
        100.0,
        "State of the way to a peer GPU",
        {"DCGM_EXP_P2P_STATUS": COUNT},
        labels=("peer_gpu",),
    ),
    _state("c2c_links", 1024, "Chip-to-chip links", "C2C_LINK_COUNT", "C2C_LINK_QUANTITY"),
    _state("c2c_status", 1, "Whether the chip-to-chip link is up", "C2C_LINK_STATUS"),
    gauge(
        "c2c_bandwidth_max",
        BYTES_PER_SECOND,
        _SPEED_MAX,
        "Top speed of the chip-to-chip link",
        {
            "DCGM_FI_DEV_C2C_MAX_BANDWIDTH": "MB/s",
            "DCGM_FI_DEV_C2C_MAX_BANDWIDTH_BYTES_PER_SECOND": BYTES_PER_SECOND,
        },
    ),
    _state("fabric_status", 100, "State of the fabric manager", "FABRIC_MANAGER_STATUS"),
    _state("fabric_health", 100, "Health of the fabric, in short", "FABRIC_HEALTH_SUMMARY"),
    _state(
        "fabric_health_bits",
        float(2**32),
        "Health of the fabric, one bit a matter",
        "FABRIC_HEALTH_MASK",
    ),
)
