"""In which order it is all done: repeats interleaved, and each round begins with another."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from peers.busy import settled_share
from peers.matrix import Scale
from peers.measure import Bench, ceiling, fill_for_recovery, on_server, recovery
from peers.samples import Sample

ON_SERVER = ("throughput", "latency", "start")
PARTS = (*ON_SERVER, "ceiling", "recovery")


def turns(systems: Sequence[str], repeats: int) -> Iterator[tuple[int, str]]:
    """Each round begins with another system: a machine tires, and its disk fills."""
    for repeat in range(repeats):
        first = repeat % len(systems)
        for name in (*systems[first:], *systems[:first]):
            yield repeat, name


class Run:
    """One run over the systems. What fails is told and kept as failed; the others go on."""

    def __init__(
        self, systems: Sequence[str], scale: Scale, place: Path, patience_s: float = 0.0
    ) -> None:
        """`patience_s`: how long a round waits for a machine that is busy."""
        self.samples: list[Sample] = []
        self.failures: list[str] = []
        self.busiest = 0.0
        self._systems, self._scale, self._place = systems, scale, place
        self._patience_s = patience_s
        self._began, self._share_done = time.monotonic(), 0.0

    def measure(self, parts: Sequence[str], keep: Callable[[], None]) -> None:
        """`keep` is called after every round: an hour must not be lost to its last minute."""
        filled = [name for name in self._systems if "recovery" in parts and self._fill(name)]
        self._began = time.monotonic()
        rounds = list(turns(self._systems, self._scale.repeats))
        for number, (repeat, name) in enumerate(rounds):
            self._share_done = number / len(rounds)
            if number % len(self._systems) == 0:
                self.busiest = max(self.busiest, settled_share(self._patience_s))
            bench = Bench(name, self._scale, repeat)
            place = self._place / f"{name}-{repeat}"
            if any(part in ON_SERVER for part in parts):
                self._try(bench, "on a server", partial(on_server, bench, place, parts))
            if "ceiling" in parts:
                self._try(bench, "ceiling", partial(ceiling, bench))
            if name in filled:
                self._try(bench, "recovery", partial(recovery, bench, *self._filled(name)))
            if (number + 1) % len(self._systems) == 0:
                keep()

    def _fill(self, name: str) -> bool:
        bench = Bench(name, self._scale, 0)
        failed = len(self.failures)
        self._try(bench, "filling", partial(fill_for_recovery, bench, *self._filled(name)))
        return len(self.failures) == failed

    def _filled(self, name: str) -> tuple[Path, Path]:
        """Where the files of a killed server are kept, and where it ran."""
        return self._place / f"{name}-kept", self._place / f"{name}-filled"

    def _try(self, bench: Bench, what: str, work: Callable[[], list[Sample]]) -> None:
        said = f"round {bench.repeat + 1}, {bench.system.title}, {what}"
        print(f"… {said}{self._left()}", file=sys.stderr, flush=True)
        try:
            self.samples += work()
        except Exception as error:  # noqa: BLE001 - seven libraries, each with errors of its own
            self.failures.append(f"{said}: {error}")
            print(f"  failed: {error}", file=sys.stderr, flush=True)

    def _left(self) -> str:
        """How long the other rounds may take, by those that are done."""
        if not self._share_done:
            return ""
        spent_s = time.monotonic() - self._began
        minutes = spent_s * (1 / self._share_done - 1) / 60
        return f" ({self._share_done:.0%}, {minutes:.0f} minutes left)"
