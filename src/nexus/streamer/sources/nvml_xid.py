"""XID errors as NVML's events tell them, as DCGM's two metrics: the last one, and how many of each.

The gauge alone would lose the first of two errors between two samples, and a repeated one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from nexus.streamer.sources.nvml_devices import Device
from nexus.streamer.sources.nvml_driver import Nvml, text_of

LAST_XID: Final = "DCGM_FI_DEV_XID_ERRORS"
XID_TOTAL: Final = "DCGM_EXP_XID_ERRORS_TOTAL"
EVENTS_PER_TICK_MAX: Final = 1000
_NO_INSTANCE: Final = 0xFFFFFFFF

Key = tuple[str, str]  # uuid and MIG instance


class XidWatch:
    """Listens from its making on; devices that cannot tell have no XID readings."""

    def __init__(self, nv: Nvml, devices: Iterable[Device]) -> None:
        self._nv = nv
        self._heard: set[str] = set()
        self._last: dict[Key, int] = {}
        self._totals: Counter[tuple[Key, int]] = Counter()
        self._events = nv.nvmlEventSetCreate()
        self.listen(devices)

    def listen(self, devices: Iterable[Device]) -> None:
        """Hear of these whole GPUs too."""
        for device in devices:
            if device.mig or device.uuid in self._heard:
                continue
            try:
                self._nv.nvmlDeviceRegisterEvents(
                    device.handle, self._nv.nvmlEventTypeXidCriticalError, self._events
                )
            except self._nv.NVMLError:
                continue
            self._heard.add(device.uuid)

    def collect(self) -> None:
        """Take in what happened since the last time, without waiting."""
        for _ in range(EVENTS_PER_TICK_MAX):
            try:
                event = self._nv.nvmlEventSetWait_v2(self._events, 0)
                uuid = text_of(self._nv.nvmlDeviceGetUUID(event.device))
            except self._nv.NVMLError:  # no more of them: NVML says so by a timeout
                return
            if event.eventType == self._nv.nvmlEventTypeXidCriticalError:
                mig = "" if event.gpuInstanceId == _NO_INSTANCE else str(event.gpuInstanceId)
                self._last[uuid, mig] = event.eventData
                self._totals[(uuid, mig), event.eventData] += 1

    def readings(self, device: Device) -> Iterator[tuple[str, float, str]]:
        """Name, value and, for the totals, the XID."""
        key = (device.uuid, device.mig)
        if device.uuid not in self._heard or (device.mig and key not in self._last):
            return
        yield LAST_XID, self._last.get(key, 0), ""
        for (owner, xid), count in self._totals.items():
            if owner == key:
                yield XID_TOTAL, count, str(xid)

    def close(self) -> None:
        """Stop listening."""
        self._nv.nvmlEventSetFree(self._events)
