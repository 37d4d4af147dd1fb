"""What the jobs that derive tables can be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from nexus.pipeline.derive.windows import HOUR, MINUTE

WIDTHS: Final[Mapping[str, int]] = MappingProxyType({"rollup_1m": MINUTE, "rollup_1h": HOUR})
SNAPSHOTS: Final = ("latest", "gpus")


@dataclass(frozen=True)
class DeriveOptions:
    """How often, how soon, and how much at once."""

    interval_s: float = 10.0  # between two looks at `readings`
    grace_s: float = 30.0  # that a window stays open after its end, for readings on their way
    # Windows that were stored are computed again at most so often: late readings come in bursts.
    late_interval_s: Mapping[str, float] = field(
        default_factory=lambda: {"rollup_1m": 60.0, "rollup_1h": 600.0}
    )
    turn_s: float = 30.0  # after which a table with more to do lets the others have their turn
    piece_rows: int = 20_000_000  # readings that are computed before a commit
    partition_rows: int = 500_000  # readings in the memory of one task
    uuids_max: int = 64  # late readings of fewer GPUs do not have the others computed again
    dense_rows: int = 200  # in a window: a file with fewer is looked into before it is believed
    heartbeat_versions: int = 200  # without work, progress is still told every so many
    prune_interval_s: float = 3600.0  # between two looks for series whose readings are gone
    pool: str | None = None  # of Spark's fair scheduler
