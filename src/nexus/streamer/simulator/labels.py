"""The labels that a simulated exporter and the server that scrapes it put on a series."""

from typing import Final

from nexus.streamer.simulator.fleet import Gpu

_JOB: Final = "dgx_dcgm_exporter"
_PORT: Final = 9400


def label_set(gpu: Gpu, metric: str, upgraded: bool) -> dict[str, str]:
    """All labels of a series, those that are columns of a reading too."""
    driver = "DCGM_FI_SYSTEM_DRIVER_VERSION" if upgraded else "DCGM_FI_DRIVER_VERSION"
    return {
        driver: gpu.host.driver,
        "hostname" if upgraded else "Hostname": gpu.host.name,
        "UUID": gpu.uuid,
        "__name__": metric,
        "device": f"nvidia{gpu.number}",
        "gpu": str(gpu.number),
        "instance": f"{gpu.host.name}:{_PORT}",
        "job": _JOB,
        "modelName": gpu.host.model.name,
    }
