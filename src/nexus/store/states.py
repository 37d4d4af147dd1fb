"""What a GPU is doing, judged from its last readings; no news is never taken for idleness."""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """What a GPU or a MIG instance is doing."""

    ACTIVE = "active"  # it computes
    IDLE_HELD = "idle-held"  # it does not, and somebody keeps it: a pod, or memory in use
    FREE = "free"
    UNKNOWN = "unknown"  # nothing was heard of it lately, or nothing that tells


STATES: Final = tuple(state.value for state in State)

# How busy a GPU is: the first of these that it reports.
BUSY_METRICS: Final = ("engine_active", "gpu_util")
MEMORY_METRIC: Final = "memory_used"
BUSY_LEAST: Final = 0.05
HELD_BYTES: Final = 500 * 1024 * 1024  # more than this in use means that somebody holds it
UNKNOWN_AFTER_S: Final = 120.0
