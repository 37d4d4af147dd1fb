"""What a GPU is busy with: utilisation as the driver samples it, and the profiling counters."""

from typing import Final

from nexus.telemetry.metrics.declare import Metric, gauge
from nexus.telemetry.units import BYTES_PER_SECOND, PERCENT, RATIO

_BUS_MAX: Final = 1e13  # bytes a second; ten times what any link of today moves


def _active(name: str, description: str, *fields: str) -> Metric:
    # Averages over a window that is measured apart from the cycles can end just above one.
    return gauge(name, RATIO, 1.05, description, dict.fromkeys(fields, RATIO))


def _engine(name: str, description: str, old: str, new: str) -> tuple[Metric, ...]:
    return tuple(
        _active(
            f"{name}{n}_active",
            f"Share of time that {description} {n} was busy",
            f"DCGM_FI_PROF_{old.format(n)}_ACTIVE",
            f"DCGM_FI_PROF_{new.format(n)}_RATIO",
        )
        for n in range(8 if name != "ofa" else 2)
    )


METRICS: Final = (
    gauge(
        "gpu_util",
        RATIO,
        1.0,
        "Share of the last sample period in which any kernel ran",
        {
            "DCGM_FI_DEV_GPU_UTIL": PERCENT,
            "DCGM_FI_DEV_GPU_UTIL_RATIO": RATIO,
            "dcgm_gpu_utilization": PERCENT,
        },
    ),
    gauge(
        "memory_util",
        RATIO,
        1.0,
        "Share of the last sample period in which device memory was read or written",
        {
            "DCGM_FI_DEV_MEM_COPY_UTIL": PERCENT,
            "DCGM_FI_DEV_MEMORY_UTIL_RATIO": RATIO,
            "dcgm_mem_copy_utilization": PERCENT,
        },
    ),
    gauge(
        "encoder_util",
        RATIO,
        1.0,
        "Share of time that the video encoder was busy",
        {
            "DCGM_FI_DEV_ENC_UTIL": PERCENT,
            "DCGM_FI_DEV_ENC_UTIL_RATIO": RATIO,
            "dcgm_enc_utilization": PERCENT,
        },
    ),
    gauge(
        "decoder_util",
        RATIO,
        1.0,
        "Share of time that the video decoder was busy",
        {
            "DCGM_FI_DEV_DEC_UTIL": PERCENT,
            "DCGM_FI_DEV_DEC_UTIL_RATIO": RATIO,
            "dcgm_dec_utilization": PERCENT,
        },
    ),
    _active(
        "engine_active",
        "Share of time that any part of the graphics or compute engines was busy",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "dcgm_fi_prof_gr_engine_active",
    ),
    _active(
        "sm_active",
        "Share of cycles in which a multiprocessor had at least one warp, over all of them",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_SM_UTIL_RATIO",
    ),
    _active(
        "sm_occupancy",
        "Resident warps as a share of the most that the multiprocessors can hold",
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "DCGM_FI_PROF_SM_OCCUPANCY_RATIO",
    ),
    _active(
        "tensor_active",
        "Share of cycles in which the tensor pipes were busy",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "dcgm_fi_prof_pipe_tensor_active",
    ),
    _active(
        "tensor_int_active",
        "Share of cycles in which the integer tensor pipe was busy",
        "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE",
        "DCGM_FI_PROF_IMMA_UTIL_RATIO",
    ),
    _active(
        "tensor_half_active",
        "Share of cycles in which the half-precision tensor pipe was busy",
        "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE",
        "DCGM_FI_PROF_HMMA_UTIL_RATIO",
    ),
    _active(
        "tensor_double_active",
        "Share of cycles in which the double-precision tensor pipe was busy",
        "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE",
        "DCGM_FI_PROF_DFMA_UTIL_RATIO",
    ),
    _active(
        "dram_active",
        "Share of cycles in which the memory interface sent or received data",
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "DCGM_FI_PROF_DRAM_UTIL_RATIO",
        "dcgm_fi_prof_dram_active",
    ),
    _active(
        "fp64_active",
        "Share of cycles in which the double-precision pipe was busy",
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
        "DCGM_FI_PROF_FP64_UTIL_RATIO",
    ),
    _active(
        "fp32_active",
        "Share of cycles in which the single-precision pipe was busy",
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
        "DCGM_FI_PROF_FP32_UTIL_RATIO",
    ),
    _active(
        "fp16_active",
        "Share of cycles in which the half-precision pipe was busy",
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
        "DCGM_FI_PROF_FP16_UTIL_RATIO",
    ),
    _active(
        "int_active",
        "Share of cycles in which the integer pipe was busy",
        "DCGM_FI_PROF_PIPE_INT_ACTIVE",
        "DCGM_FI_PROF_INT_UTIL_RATIO",
    ),
    *_engine("nvdec", "video decoder", "NVDEC{}", "NVDEC_UTIL_{}"),
    *_engine("nvjpg", "image decoder", "NVJPG{}", "NVJPG_UTIL_{}"),
    *_engine("ofa", "optical-flow engine", "NVOFA{}", "NVOFA_UTIL_{}"),
    gauge(
        "pcie_tx",
        BYTES_PER_SECOND,
        _BUS_MAX,
        "Bytes a second that the GPU sent over PCIe, headers included",
        {
            "DCGM_FI_PROF_PCIE_TX_BYTES": BYTES_PER_SECOND,
            "DCGM_FI_DEV_PCIE_TX_THROUGHPUT": "KB/s",
            "dcgm_fi_prof_pcie_tx_bytes": BYTES_PER_SECOND,
        },
    ),
    gauge(
        "pcie_rx",
        BYTES_PER_SECOND,
        _BUS_MAX,
        "Bytes a second that the GPU received over PCIe, headers included",
        {
            "DCGM_FI_PROF_PCIE_RX_BYTES": BYTES_PER_SECOND,
            "DCGM_FI_DEV_PCIE_RX_THROUGHPUT": "KB/s",
            "dcgm_fi_prof_pcie_rx_bytes": BYTES_PER_SECOND,
        },
    ),
    gauge(
        "nvlink_tx",
        BYTES_PER_SECOND,
        _BUS_MAX,
        "Bytes a second that the GPU sent over NVLink, headers included",
        {"DCGM_FI_PROF_NVLINK_TX_BYTES": BYTES_PER_SECOND},
        labels=("link",),
    ),
    gauge(
        "nvlink_rx",
        BYTES_PER_SECOND,
        _BUS_MAX,
        "Bytes a second that the GPU received over NVLink, headers included",
        {"DCGM_FI_PROF_NVLINK_RX_BYTES": BYTES_PER_SECOND},
        labels=("link",),
    ),
)
