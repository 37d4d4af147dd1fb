"""The GPUs and MIG instances of this machine, as NVML lists them now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from nexus.streamer.sources.nvml_driver import (
    DriverLost,
    Failure,
    Handle,
    Nvml,
    failure_of,
    text_of,
)

DRIVER_LABEL: Final = "DCGM_FI_DRIVER_VERSION"
_MIG_ENABLED: Final = 1

T = TypeVar("T")


@dataclass(slots=True)
class Device:
    """A GPU or a MIG instance (`mig` is its GPU instance's id then, `parent` the whole GPU)."""

    handle: Handle
    uuid: str
    gpu: str
    device: str
    model: str
    labels: dict[str, str]
    mig: str = ""
    parent: Handle | None = None
    split: bool = False  # a whole GPU whose processes are its MIG instances'
    unsupported: set[str] = field(default_factory=set)  # what it was asked once and does not have


def list_devices(nv: Nvml, owns: Callable[[str], bool] = lambda uuid: True) -> list[Device]:
    """Every GPU that answers and that is `owned`, each followed by its MIG instances."""
    try:
        driver, count = text_of(nv.nvmlSystemGetDriverVersion()), nv.nvmlDeviceGetCount()
    except nv.NVMLError as error:
        raise DriverLost(str(error)) from error
    found: list[Device] = []
    for index in range(count):
        try:
            gpu = _gpu(nv, index, driver)
            if owns(gpu.uuid):
                found += [gpu, *_mig_instances(nv, gpu)]
        except nv.NVMLError as error:  # one that fell off the bus must not hide the others
            if failure_of(nv, error) is Failure.DRIVER_GONE:
                raise DriverLost(str(error)) from error
    return found


def _gpu(nv: Nvml, index: int, driver: str) -> Device:
    handle = nv.nvmlDeviceGetHandleByIndex(index)
    labels = {DRIVER_LABEL: driver}
    bus = _asked(nv, lambda: text_of(nv.nvmlDeviceGetPciInfo(handle).busId))
    if bus:
        labels["pci_bus_id"] = bus
    minor = _asked(nv, lambda: nv.nvmlDeviceGetMinorNumber(handle))
    return Device(
        handle,
        uuid=text_of(nv.nvmlDeviceGetUUID(handle)),
        gpu=str(index),
        device=f"nvidia{index if minor is None else minor}",
        model=text_of(nv.nvmlDeviceGetName(handle)),
        labels=labels,
    )


def _mig_instances(nv: Nvml, gpu: Device) -> Iterator[Device]:
    mode = _asked(nv, lambda: nv.nvmlDeviceGetMigMode(gpu.handle))
    if not mode or mode[0] != _MIG_ENABLED:
        return
    gpu.split = True
    seen: set[str] = set()
    for slot in range(nv.nvmlDeviceGetMaxMigDeviceCount(gpu.handle)):
        handle = _asked(nv, partial(nv.nvmlDeviceGetMigDeviceHandleByIndex, gpu.handle, slot))
        if handle is None:
            continue
        instance = str(nv.nvmlDeviceGetGpuInstanceId(handle))
        if instance in seen:  # compute instances of one GPU instance share what can be measured
            continue
        seen.add(instance)
        profile = text_of(nv.nvmlDeviceGetName(handle)).rpartition("MIG ")[2]
        labels = {**gpu.labels, "GPU_I_PROFILE": profile}
        yield Device(
            handle, gpu.uuid, gpu.gpu, gpu.device, gpu.model, labels, instance, parent=gpu.handle
        )


def _asked(nv: Nvml, call: Callable[[], T]) -> T | None:
    """The answer, or None where there is none to be had."""
    try:
        return call()
    except nv.NVMLError as error:
        if failure_of(nv, error) in (Failure.GPU_GONE, Failure.DRIVER_GONE):
            raise
        return None
