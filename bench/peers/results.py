"""The results file: what was measured, on what, by which command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nexus.bench.report import Figure
from peers.samples import Sample
from peers.statistics import Spread, spread_of


@dataclass(frozen=True, slots=True)
class About:
    """One system, in its own words."""

    title: str
    version: str
    client: str
    durability: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Results:
    """One run."""

    date: str
    command: str
    machine: str
    busy: float
    """The greatest share of CPU time that others used when a round began."""
    forced: bool
    systems: Mapping[str, About]
    samples: Sequence[Sample]
    failures: Sequence[str] = ()
    figures: Mapping[str, Sequence[Figure]] = field(default_factory=dict)

    def of(self, part: str, label: str = "base") -> dict[str, list[Sample]]:
        """The samples of one part at one point, by system, in the systems' order."""
        wanted = [s for s in self.samples if s.part == part and s.label == label]
        return {
            name: found
            for name in self.systems
            if (found := [s for s in wanted if s.system == name])
        }

    def spreads(self, part: str, measure: str, label: str = "base") -> dict[str, Spread]:
        return {
            name: spread_of(sample.values[measure] for sample in samples)
            for name, samples in self.of(part, label).items()
        }

    def labels(self, part: str) -> list[str]:
        return list(dict.fromkeys(s.label for s in self.samples if s.part == part))


def save(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n")


def load(path: Path) -> Results:
    kept: dict[str, Any] = json.loads(path.read_text())
    kept["systems"] = {name: About(**one) for name, one in kept["systems"].items()}
    kept["samples"] = [Sample(**one) for one in kept["samples"]]
    kept["figures"] = {
        name: [Figure(**one) for one in figures] for name, figures in kept["figures"].items()
    }
    return Results(**kept)
