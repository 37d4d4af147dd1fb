"""How a run went, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nexus.up.machine import House
from nexus.up.watch import Sight
from nexus.up.words import size


@dataclass(frozen=True, slots=True)
class Tally:
    """Readings that came to the store, and the GPUs in it; None where it is not known."""

    readings: int | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One run from its start to its end."""

    seconds: float
    stop_seconds: float
    house: House
    sight: Sight
    tally: Tally

    def document(self) -> dict[str, Any]:
        """For programs."""
        lives = self.house.lives.items()
        return {
            "seconds": round(self.seconds, 3),
            "stop_seconds": round(self.stop_seconds, 3),
            "readings_stored": self.tally.readings,
            "gpus": self.tally.gpus,
            "first_rows_seconds": _rounded(self.sight.rows_after_s),
            "peak_memory_pss_bytes": self.sight.memory_peak_bytes,
            "restarts": sum(life.restarts for _, life in lives),
            "parts": {
                name: {
                    "ready_seconds": _rounded(life.ready_s),
                    "restarts": life.restarts,
                    "killed_at_stop": life.overdue,
                }
                for name, life in lives
            },
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"stopped in {self.stop_seconds:.1f} s after a run of {self.seconds:,.0f} s"
        facts = []
        if self.tally.readings is not None:
            facts.append(f"{self.tally.readings:,} readings stored")
        if self.tally.gpus is not None:
            facts.append(f"{self.tally.gpus:,} GPUs seen")
        facts.append(self._restarts())
        if self.sight.memory_peak_bytes:
            facts.append(f"at most {size(self.sight.memory_peak_bytes)} of memory (PSS)")
        yield ", ".join(facts)

    def _restarts(self) -> str:
        again = {name: life.restarts for name, life in self.house.lives.items() if life.restarts}
        if not again:
            return "no restarts"
        return "restarts: " + ", ".join(f"{name} {count}" for name, count in again.items())


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
