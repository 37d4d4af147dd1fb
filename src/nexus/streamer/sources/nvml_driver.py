"""The driver's library, opened: every failure to reach it is one line that says what to do.

`Nvml` is the module pynvml or one with its functions; NVML's errors are told apart by code, since
the same code means "never" for one call and "not now" for another.
"""

from __future__ import annotations

import importlib
from enum import Enum, auto
from typing import Any, Final

from nexus.errors import NexusError

Nvml = Any  # the module pynvml, which has no types
Handle = Any  # a pointer of NVML's

_NEVER: Final = (
    "NOT_SUPPORTED",
    "FUNCTION_NOT_FOUND",
    "INVALID_ARGUMENT",
    "NO_PERMISSION",
    "ARGUMENT_VERSION_MISMATCH",
    "DEPRECATED",
    "VGPU_ECC_NOT_SUPPORTED",
)
_DRIVER_GONE: Final = ("UNINITIALIZED", "DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH")
_GPU_GONE: Final = ("GPU_IS_LOST", "RESET_REQUIRED", "GPU_NOT_FOUND")


class NvmlUnavailable(NexusError):
    """Raised when this machine has no NVIDIA driver that answers."""


class DriverLost(NexusError):
    """Raised when a driver that answered does so no longer: it was reloaded or replaced."""


class Failure(Enum):
    """What an NVML error means for the one who called."""

    NEVER = auto()  # this GPU or driver does not have it
    NOT_NOW = auto()
    GPU_GONE = auto()
    DRIVER_GONE = auto()


def open_driver(nv: Nvml | None = None) -> Nvml:
    """NVML, initialised; the caller shuts it down. NvmlUnavailable says why there is none."""
    if nv is None:
        try:
            nv = importlib.import_module("pynvml")
        except ImportError:
            raise NvmlUnavailable("nvml:// needs the Python package nvidia-ml-py") from None
    try:
        nv.nvmlInit()
    except nv.NVMLError as error:
        raise NvmlUnavailable(_why(nv, error)) from error
    return nv


def failure_of(nv: Nvml, error: Exception) -> Failure:
    """What to do about an error of NVML's."""
    code = getattr(error, "value", None)
    for names, failure in (
        (_NEVER, Failure.NEVER),
        (_GPU_GONE, Failure.GPU_GONE),
        (_DRIVER_GONE, Failure.DRIVER_GONE),
    ):
        if any(code == getattr(nv, f"NVML_ERROR_{name}", None) for name in names):
            return failure
    return Failure.NOT_NOW


def text_of(value: object) -> str:
    """NVML's strings are bytes in some versions of its binding."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _why(nv: Nvml, error: Exception) -> str:
    code = getattr(error, "value", None)
    if code == nv.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "no NVIDIA driver on this machine: libnvidia-ml.so.1 was not found"
    if code == nv.NVML_ERROR_DRIVER_NOT_LOADED:
        return "the NVIDIA driver is installed but not loaded"
    if code == nv.NVML_ERROR_NO_PERMISSION:
        return "no permission to talk to the NVIDIA driver"
    if code == nv.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "the NVIDIA driver was updated and its library does not fit it: restart the machine"
    return f"the NVIDIA driver does not answer: {error}"
