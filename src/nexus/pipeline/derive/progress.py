"""How far the derived tables are, for whoever watches them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TableProgress:
    """One table after a step, and what the step did to it."""

    version: int | None  # of `readings`, up to which the table stands for it
    closed: datetime | None = None  # of rollups: all windows before are stored
    pieces: int = 0  # of work, each a commit
    rows: int = 0  # readings that were read
    late: int = 0  # pieces of windows that were stored before
    seconds: float = 0.0
    unfinished: bool = False  # more is due


@dataclass(frozen=True, slots=True)
class Progress:
    """All derived tables after a step."""

    version: int  # of `readings` that the step saw
    tables: Mapping[str, TableProgress] = field(default_factory=dict)

    @property
    def unfinished(self) -> bool:
        return any(table.unfinished for table in self.tables.values())

    @property
    def lag(self) -> int:
        """Versions of `readings` that the slowest table has yet to follow."""
        known = [0 if t.version is None else t.version for t in self.tables.values()]
        return self.version - min(known, default=self.version)
