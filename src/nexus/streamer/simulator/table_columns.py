"""Rows as Arrow columns: text is dictionary-encoded and shared by all ticks of a layout."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator.columns import word
from nexus.streamer.simulator.fleet import Gpu
from nexus.streamer.simulator.labels import label_set
from nexus.streamer.simulator.layout import Layout
from nexus.streamer.simulator.metrics import QUANTITIES
from nexus.streamer.simulator.workloads import Holding
from nexus.telemetry.labels import split_labels
from nexus.telemetry.reading import SOURCE_SCHEMA, TIMESTAMP

_COLUMNS: Final = tuple(name for name in SOURCE_SCHEMA.names if name != "ingested")


class TableColumns:
    """The columns of one share's GPUs, kept for as long as a layout lasts."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = gpus
        self._labels = [
            pa.array([split_labels(label_set(gpu, "", new))["labels"] for gpu in gpus])
            for new in (False, True)
        ]
        self._devices = {
            "uuid": [gpu.uuid for gpu in gpus],
            "gpu": [str(gpu.number) for gpu in gpus],
            "device": [f"nvidia{gpu.number}" for gpu in gpus],
            "model": [gpu.host.model.name for gpu in gpus],
            "hostname": [gpu.host.name for gpu in gpus],
            "cluster": [""] * len(gpus),
            "mig": [""] * len(gpus),
        }
        self._layout: Layout | None = None
        self._columns: dict[str, pa.Array] = {}

    def rows(self, layout: Layout, time_ms: int, values: pa.Array) -> pa.Table:
        """The rows of one tick; `values` has all of them, silent ones too."""
        if self._layout is not layout:
            self._columns = self._for(layout)
            self._layout = layout
        time = pa.scalar(time_ms * 1_000, pa.int64())
        columns = {
            **self._columns,
            "timestamp": pa.repeat(time, layout.rows).cast(TIMESTAMP),
            "source_value": layout.reported(values),
        }
        return pa.table({name: columns[name] for name in _COLUMNS})

    def _for(self, layout: Layout) -> dict[str, pa.Array]:
        """Everything but times and values."""
        of_gpus = {name: pa.array(values, pa.string()) for name, values in self._devices.items()}
        of_gpus |= _holders(layout.holders)
        of_gpus["labels"] = pc.if_else(layout.upgraded, self._labels[1], self._labels[0])
        columns = {
            name: layout.reported(_repeated(column.dictionary_encode()))
            for name, column in of_gpus.items()
        }
        for name, forms in _FORMS.items():
            said = [pc.if_else(layout.upgraded, word(new), word(old)) for old, new in forms]
            columns[name] = layout.reported(pa.concat_arrays(said).dictionary_encode())
        return columns


_FORMS: Final = {
    "source_metric": [(quantity.old.name, quantity.new.name) for quantity in QUANTITIES],
    "unit": [(quantity.old.unit, quantity.new.unit) for quantity in QUANTITIES],
}


def _repeated(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """One value a GPU, for every quantity."""
    indices = pa.concat_arrays([column.indices] * len(QUANTITIES))
    return pa.DictionaryArray.from_arrays(indices, column.dictionary)


def _holders(holders: Sequence[Holding | None]) -> dict[str, pa.Array]:
    texts = {
        "namespace": [holder.job.namespace if holder else "" for holder in holders],
        "pod": [holder.pod if holder else "" for holder in holders],
        "container": [holder.job.container if holder else "" for holder in holders],
    }
    return {name: pa.array(values, pa.string()) for name, values in texts.items()}
