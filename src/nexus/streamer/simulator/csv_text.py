"""Rows of the long CSV: texts that stay the same for many ticks, and a short value, joined.

The form is the one of real dumps: every value in quotes, a Prometheus label set in the last cell.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator import columns as col
from nexus.streamer.simulator.fleet import Gpu
from nexus.streamer.simulator.labels import label_set
from nexus.streamer.simulator.layout import Layout
from nexus.streamer.simulator.metrics import QUANTITIES
from nexus.streamer.simulator.workloads import Holding

CSV_HEADER: Final = (
    b"timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,container,pod,namespace,"
    b"value,labels_raw\n"
)


class CsvText:
    """The texts of one share's GPUs, kept for as long as a layout lasts."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._devices = pa.array([_device_cells(gpu) for gpu in gpus], pa.string())
        self._labels = [_label_columns(gpus, new) for new in (False, True)]
        self._upgraded: pa.Array | None = None
        self._names: tuple[pa.Array, pa.Array] | None = None
        self._layout: Layout | None = None
        self._around: tuple[pa.Array, pa.Array] | None = None
        self._after: tuple[pa.Array | None, pa.Array, pa.Array] | None = None

    def rows(self, layout: Layout, time: str, values: pa.Array) -> memoryview:
        """The rows of one tick; `values` has all of them, silent ones too."""
        before, after = self._for(layout)
        stamp = pa.scalar(f'"{time}', pa.string())
        joined = col.join(stamp, before, layout.reported(values), after)
        _, offsets, data = joined.buffers()
        end = memoryview(offsets).cast("i")[joined.offset + len(joined)]
        return memoryview(data)[:end]

    def _for(self, layout: Layout) -> tuple[pa.Array, pa.Array]:
        """What stands before and after the value in each row of a layout."""
        if self._around is None or self._layout is not layout:
            names, labels = self._for_names(layout.upgraded)
            holders = pa.array([_holder_cells(holder) for holder in layout.holders], pa.string())
            everywhere = pa.concat_arrays([holders] * len(QUANTITIES))
            before = col.join(names, everywhere)
            self._around = layout.reported(before), self._reported_labels(layout, labels)
            self._layout = layout
        return self._around

    def _reported_labels(self, layout: Layout, labels: pa.Array) -> pa.Array:
        """Kept as long as the same rows are reported under the same names: they are long texts."""
        if (
            self._after is None
            or self._after[0] is not layout.cells
            or self._after[1] is not labels
        ):
            self._after = layout.cells, labels, layout.reported(labels)
        return self._after[2]

    def _for_names(self, upgraded: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Metric and device cells, and label cells, for the names that exporters use now."""
        if self._names is None or not upgraded.equals(self._upgraded):
            old, new = self._labels
            ahead = pc.if_else(upgraded, new[0], old[0])
            behind = pc.if_else(upgraded, new[1], old[1])
            cells, labels = [], []
            for quantity in QUANTITIES:
                name = pc.if_else(
                    upgraded, col.word(quantity.new.name), col.word(quantity.old.name)
                )
                cells.append(col.join(col.word('","'), name, self._devices))
                labels.append(col.join(ahead, name, behind))
            self._names = pa.concat_arrays(cells), pa.concat_arrays(labels)
            self._upgraded = upgraded
        return self._names


def _device_cells(gpu: Gpu) -> str:
    cells = (str(gpu.number), f"nvidia{gpu.number}", gpu.uuid, gpu.host.model.name, gpu.host.name)
    return '","' + '","'.join(cells) + '","'


def _holder_cells(holding: Holding | None) -> str:
    if holding is None:
        return '","","","'
    return f'{holding.job.container}","{holding.pod}","{holding.job.namespace}","'


def _label_columns(gpus: Sequence[Gpu], upgraded: bool) -> tuple[pa.Array, pa.Array]:
    """The label cell up to the metric's name, and from there to the end of the row."""
    mark = "\0"
    halves = [_label_cell(gpu, mark, upgraded).split(mark) for gpu in gpus]
    ahead, behind = zip(*halves, strict=True)
    return pa.array(ahead, pa.string()), pa.array(behind, pa.string())


def _label_cell(gpu: Gpu, name: str, upgraded: bool) -> str:
    labels = label_set(gpu, name, upgraded)
    pairs = ",".join(f'{label}=""{value}""' for label, value in sorted(labels.items()))
    return f'","{pairs}"\n'
