"""The truth beside the readings: every GPU's state and holder over time, and every fault.

A state is what a reader of perfect readings would say: active, idle-held (a pod is there and
nothing runs), free, or unknown (no readings). Intervals end where the next begins.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nexus.streamer.simulator import columns as col
from nexus.streamer.simulator.faults import Fault
from nexus.streamer.simulator.simulation import Simulation, Span
from nexus.streamer.simulator.times import timestamp_text
from nexus.streamer.simulator.workloads import Holding

ACTIVE, IDLE_HELD, FREE, UNKNOWN = "active", "idle-held", "free", "unknown"
STATES: Final = (ACTIVE, IDLE_HELD, FREE, UNKNOWN)


@dataclass(slots=True)
class _Hold:
    holding: Holding
    first: int
    end: int


def states_of(span: Span) -> pa.Array:
    """The state of each cell, as an index into STATES."""
    samples = span.samples
    seen = col.choose(samples.active, 0, col.choose(samples.held, 1, 2))
    return col.choose(samples.silent, 3, seen).cast(pa.int8())


class Truth:
    """Collects what spans show, in order; work is by change, not by tick."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        gpus = len(simulation.fleet.gpus)
        self._states: list[list[tuple[int, int]]] = [[] for _ in range(gpus)]  # (tick, state)
        self._holds: list[list[_Hold]] = [[] for _ in range(gpus)]
        self._last: pa.Array = pa.repeat(pa.scalar(-1, pa.int8()), gpus)
        self._end = 0

    def add(self, span: Span) -> None:
        """Take a span's states and holders."""
        gpus = span.samples.grid.gpus
        states = states_of(span)
        cells = span.ticks * gpus
        before = pa.concat_arrays([self._last, states.slice(0, cells - gpus)])
        changed = pc.indices_nonzero(col.differs(states, before))
        for cell, state in zip(changed.to_pylist(), states.take(changed).to_pylist(), strict=True):
            self._states[cell % gpus].append((span.first + cell // gpus, state))
        self._last = states.slice(cells - gpus)
        self._hold(span)
        self._end = span.first + span.ticks

    def _hold(self, span: Span) -> None:
        at = 0
        for row, length in zip(span.jobs.rows, span.jobs.lengths, strict=True):
            gpu, tick = divmod(at, span.ticks)
            at += length
            holding = span.jobs.holdings[row]
            if holding is None:
                continue
            holds = self._holds[gpu]
            first = span.first + tick
            if holds and holds[-1].holding.job is holding.job:
                holds[-1].end = first + length
            else:
                holds.append(_Hold(holding, first, first + length))

    def document(self) -> dict[str, Any]:
        """Everything, as it is written."""
        config = self._simulation.config
        return {
            "version": 1,
            "seed": config.seed,
            "hosts": config.hosts,
            "gpus_per_host": config.gpus,
            "interval_ms": config.interval_ms,
            "ticks": self._end,
            "start": self._time(0),
            "end": self._time(self._end),
            "gpus": [self._gpu(index) for index in range(len(self._states))],
            "faults": list(self._faults()),
        }

    def text(self) -> str:
        """The document with one line for each GPU and fault."""
        document = self.document()
        parts = [f"{json.dumps(k)}: {_lines(v)}" for k, v in document.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def _gpu(self, index: int) -> dict[str, Any]:
        gpu = self._simulation.fleet.gpus[index]
        model = gpu.host.model
        return {
            "uuid": gpu.uuid,
            "hostname": gpu.host.name,
            "gpu": str(gpu.number),
            "model": model.name,
            "memory_mib": model.memory_mib,
            "power_cap_w": model.cap_w,
            "states": list(self._intervals(index)),
            "pods": [self._pod(hold) for hold in self._holds[index]],
        }

    def _intervals(self, index: int) -> Iterator[dict[str, str]]:
        changes = self._states[index]
        ends = [tick for tick, _ in changes[1:]] + [self._end]
        for (tick, state), end in zip(changes, ends, strict=True):
            yield {"state": STATES[state], "start": self._time(tick), "end": self._time(end)}

    def _pod(self, hold: _Hold) -> dict[str, str]:
        job = hold.holding.job
        return {
            "namespace": job.namespace,
            "pod": hold.holding.pod,
            "container": job.container,
            "load": job.kind.name.lower(),
            "start": self._time(hold.first),
            "end": self._time(hold.end),
        }

    def _faults(self) -> Iterator[dict[str, Any]]:
        end_ms = self._end * self._simulation.config.interval_ms
        for fault in sorted(self._simulation.faults, key=lambda f: (f.start_ms, f.kind, f.host)):
            if fault.start_ms < end_ms:
                yield self._fault(fault)

    def _fault(self, fault: Fault) -> dict[str, Any]:
        fleet, start_ms = self._simulation.fleet, self._simulation.config.start_ms
        gpu = None if fault.gpu is None else fleet.gpus[fault.gpu]
        ends = None if fault.end_ms is None else timestamp_text(start_ms + fault.end_ms)
        return {
            "kind": fault.kind,
            "hostname": fleet.hosts[fault.host].name,
            "gpu": str(gpu.number) if gpu else None,
            "uuid": gpu.uuid if gpu else None,
            "start": timestamp_text(start_ms + fault.start_ms),
            "end": ends,
            "detail": fault.detail,
        }

    def _time(self, tick: int) -> str:
        return timestamp_text(self._simulation.config.time_ms(tick))


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n]"
