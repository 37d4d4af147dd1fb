"""One measurement with all that is needed to make it again, as the results file keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """What one system did at one point in one round."""

    system: str
    part: str
    label: str
    repeat: int
    setting: str
    """The parameters of the load."""
    durability: str
    """The one that the system really had."""
    values: Mapping[str, float]
