"""Presets: one word that sets a group of values, each of which can still be set by itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from nexus.settings.options import Inputs, Source, Strength, resolve
from nexus.settings.sections import ClusterSection

PRESETS: Final[Mapping[str, Mapping[str, object]]] = {
    # As much as goes through; a crash or a power cut can take what was acknowledged last.
    "throughput": {
        "storage.fsync": "interval",
        "replication.mode": "async",
        "replication.min_insync_replicas": 1,
        "performance.batch_size": "256KB",
        "performance.linger_time": "20ms",
    },
    # What is acknowledged is on the disks of a majority, or it is not acknowledged.
    "consistency": {
        "storage.fsync": "commit",
        "replication.mode": "quorum",
        "replication.default_replication_factor": 3,
        "replication.min_insync_replicas": 2,
        "replication.unclean_leader_election": False,
        "groups.offsets_replication": 3,
    },
}


def with_preset(inputs: Inputs) -> Inputs:
    """The inputs with what `cluster.preset` stands for below them."""
    values, sources = resolve("cluster", ClusterSection, inputs)
    name = values.get("preset")
    if name is None or name not in PRESETS:
        return inputs
    where = f"preset {name} ({sources['cluster.preset'].where})"
    return replace(inputs, preset=PRESETS[name], preset_source=Source(Strength.PRESET, where))
