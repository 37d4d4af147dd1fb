"""What runs under faults add up to: a table for people, JSON for whoever compares runs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from support.checker import Defect, Report


@dataclass(frozen=True)
class Totals:
    """What was acknowledged and what went wrong; `silences` are seconds, by kind of fault."""

    acknowledged: int
    read: int
    unknown: int
    defects: Mapping[str, int]
    silences: Mapping[str, list[float]]

    @classmethod
    def of(cls, report: Report, silences: Mapping[str, list[float]]) -> Self:
        defects = {defect.value: report.counts[defect] for defect in Defect}
        return cls(report.acked, report.read, report.unknown, defects, silences)

    @classmethod
    def sum(cls, parts: Iterable[Totals]) -> Self:
        parts = list(parts)
        defects: Counter[str] = Counter()
        silences: defaultdict[str, list[float]] = defaultdict(list)
        for part in parts:
            defects.update(part.defects)
            for kind, seconds in part.silences.items():
                silences[kind] += seconds
        return cls(
            sum(part.acknowledged for part in parts),
            sum(part.read for part in parts),
            sum(part.unknown for part in parts),
            defects,
            silences,
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @property
    def faults(self) -> int:
        return sum(map(len, self.silences.values()))

    def late(self, kind: str) -> float:
        """The silence that 95 of 100 faults of a kind stay within."""
        return percentile(self.silences[kind], 95)

    def __str__(self) -> str:
        defects = ", ".join(f"{count:,} {name}" for name, count in self.defects.items())
        lines = [
            f"{self.acknowledged:,} acknowledged, {self.read:,} read, {self.unknown:,} unknown, "
            f"{self.faults:,} faults: {defects}",
            f"{'seconds without writes':34} {'faults':>6} {'p50':>7} {'p95':>7} {'worst':>7}",
        ]
        for kind, seconds in sorted(self.silences.items()):
            p50, p95 = percentile(seconds, 50), percentile(seconds, 95)
            lines.append(f"{kind:34} {len(seconds):6} {p50:7.2f} {p95:7.2f} {max(seconds):7.2f}")
        return "\n".join(lines)


def percentile(values: list[float], percent: int) -> float:
    """The smallest of the values that so many of a hundred do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]
