"""One sample of every GPU: all that NVML gives, under DCGM's names, for each pod that holds it.

What a GPU does not support is asked once and never collected. A GPU that is lost is left out
while the others go on. All calls block: this belongs in a thread of its own.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from nexus.streamer.sources.nvml_devices import Device, list_devices
from nexus.streamer.sources.nvml_driver import DriverLost, Failure, Nvml, failure_of
from nexus.streamer.sources.nvml_fields import FIELD_GROUPS, READERS, Reader, read_fields
from nexus.streamer.sources.nvml_gpm import GpmCounters, supports_gpm
from nexus.streamer.sources.nvml_xid import XidWatch
from nexus.streamer.sources.pods import NOBODY, Holder, PodFinder
from nexus.telemetry.catalogue import usual_unit
from nexus.telemetry.labels import canonical_labels
from nexus.telemetry.reading import TIMESTAMP, source_table

RELIST_S: Final = 30.0  # how soon a GPU or MIG instance that came or went is noticed

Reading = tuple[str, float, str]  # name, value, and the XID that it counts ("" mostly)

_log = logging.getLogger(__name__)


class Of(NamedTuple):
    """What a reading is of: the columns that many readings share."""

    uuid: str
    gpu: str
    device: str
    model: str
    mig: str
    namespace: str
    pod: str
    container: str
    labels: str


class Row(NamedTuple):
    """One reading of a sample."""

    name: str
    value: float
    of: Of


class Sampler:
    """Samples an opened NVML; `close` gives back what it took, NVML itself included."""

    def __init__(
        self,
        nv: Nvml,
        hostname: str,
        *,
        pods: PodFinder | None = None,
        owns: Callable[[str], bool] = lambda uuid: True,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nv = nv
        self._hostname = hostname
        self._pods = pods or PodFinder()
        self._owns = owns
        self._clock_us = clock_us
        self._monotonic = monotonic
        self.devices = list_devices(nv, owns)
        self._listed_at = monotonic()
        self._gpm: dict[tuple[str, str], GpmCounters] = {}
        self._open_gpm()
        self._xids = self._open_xids()

    def sample(self) -> pa.Table:
        """The readings of this moment as a table; DriverLost if the driver went away."""
        now_us = self._clock_us()
        return _table(self.rows(), now_us, self._hostname)

    def rows(self) -> list[Row]:
        """The readings of this moment."""
        if self._monotonic() - self._listed_at >= RELIST_S:
            self._list_again()
        if self._xids is not None:
            self._xids.collect()
        rows: list[Row] = []
        for device in self.devices:
            holders = self._holders(device)
            for name, value, xid in self._readings(device):
                rows += [Row(name, value, _of(device, holder, xid)) for holder in holders]
        return rows

    def close(self) -> None:
        """Free NVML's objects and shut it down; errors no longer matter."""
        closing = [self._xids, *self._gpm.values()]
        self._xids, self._gpm = None, {}
        for part in closing:
            self._quietly(part.close if part is not None else None)
        self._quietly(self._nv.nvmlShutdown)

    def _readings(self, device: Device) -> Iterator[Reading]:
        for reader in READERS:
            if self._wanted(reader, device):
                yield from self._tried(device, reader.names[0], self._read(reader, device))
        if not device.mig:
            for group in FIELD_GROUPS:
                fields = read_fields(self._nv, device.handle, group)
                yield from self._tried(device, group[0].name, ((n, v, "") for n, v in fields))
        gpm = self._gpm.get((device.uuid, device.mig))
        if gpm is not None:
            yield from self._tried(device, "gpm", ((n, v, "") for n, v in gpm.read()))
        if self._xids is not None:
            yield from self._xids.readings(device)

    def _wanted(self, reader: Reader, device: Device) -> bool:
        if device.mig and not reader.mig:
            return False
        return not (reader.slow and (device.uuid, device.mig) in self._gpm)

    def _read(self, reader: Reader, device: Device) -> Iterator[Reading]:
        values = reader.read(self._nv, device.handle)
        yield from ((name, value, "") for name, value in zip(reader.names, values, strict=False))

    def _tried(self, device: Device, what: str, readings: Iterable[Reading]) -> list[Reading]:
        """The readings, or none for a reason that is remembered if it will not change."""
        if what in device.unsupported:
            return []
        try:
            return [r for r in readings if isinstance(r[1], int | float) and math.isfinite(r[1])]
        except self._nv.NVMLError as error:
            match failure_of(self._nv, error):
                case Failure.NEVER:
                    device.unsupported.add(what)
                case Failure.GPU_GONE:
                    self._listed_at = -math.inf
                case Failure.DRIVER_GONE:
                    raise DriverLost(str(error)) from error
                case Failure.NOT_NOW:
                    pass
            return []

    def _holders(self, device: Device) -> list[Holder]:
        """Who runs something on the device; a reading of nobody's if there is none."""
        if device.split:
            return [NOBODY]
        pids: set[int] = set()
        for call in ("Compute", "MPSCompute"):
            try:
                listed = getattr(self._nv, f"nvmlDeviceGet{call}RunningProcesses_v3")(device.handle)
            except self._nv.NVMLError:
                continue
            pids.update(process.pid for process in listed)
        return self._pods.holders(pids) or [NOBODY]

    def _list_again(self) -> None:
        self._listed_at = self._monotonic()
        found = list_devices(self._nv, self._owns)
        if _keys(found) == _keys(self.devices):
            return
        _log.info("the GPUs have changed: %d before, %d now", len(self.devices), len(found))
        self.devices = found
        self._open_gpm()
        if self._xids is not None:
            self._xids.listen(found)

    def _open_gpm(self) -> None:
        wanted = _keys(self.devices)
        for key in [key for key in self._gpm if key not in wanted]:
            self._quietly(self._gpm.pop(key).close)
        for device in self.devices:
            key = (device.uuid, device.mig)
            # A GPU in MIG mode has its counters by instance only.
            if key not in self._gpm and not device.split and supports_gpm(self._nv, device):
                with contextlib.suppress(self._nv.NVMLError):
                    self._gpm[key] = GpmCounters(self._nv, device)

    def _open_xids(self) -> XidWatch | None:
        try:
            return XidWatch(self._nv, self.devices)
        except self._nv.NVMLError as error:
            _log.info("no XID errors will be collected: %s", error)
            return None

    def _quietly(self, call: Callable[[], object] | None) -> None:
        if call is None:
            return
        try:
            call()
        except self._nv.NVMLError as error:
            _log.debug("while closing NVML: %s", error)


def _keys(devices: Iterable[Device]) -> list[tuple[str, str]]:
    return [(device.uuid, device.mig) for device in devices]


def _of(device: Device, holder: Holder, xid: str) -> Of:
    labels = dict(device.labels)
    if holder.pod_uid:
        labels["pod_uid"] = holder.pod_uid
    if xid:
        labels["xid"] = xid
    return Of(
        device.uuid,
        device.gpu,
        device.device,
        device.model,
        device.mig,
        holder.namespace,
        holder.pod,
        holder.container,
        canonical_labels(labels),
    )


def _table(rows: list[Row], now_us: int, hostname: str) -> pa.Table:
    columns = list(zip(*(row.of for row in rows), strict=True)) or [()] * len(Of._fields)
    return source_table(
        {
            "timestamp": pa.array([now_us] * len(rows), pa.timestamp("us")).cast(TIMESTAMP),
            "source_metric": pa.array([row.name for row in rows], pa.string()),
            "source_value": pa.array([row.value for row in rows], pa.float64()),
            "unit": pa.array([usual_unit(row.name) for row in rows], pa.string()),
            "hostname": hostname,
            **{
                name: pa.array(column, pa.string())
                for name, column in zip(Of._fields, columns, strict=True)
            },
        },
        rows=len(rows),
    ).drop_columns(["ingested"])
