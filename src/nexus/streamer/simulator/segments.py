"""The schedule as columns over a block of ticks: which job's load is on which GPU.

A GPU has one holder at a time: a block is a few runs for each GPU, and row 0 is nobody.
"""

from dataclasses import dataclass

import pyarrow as pa

from nexus.streamer.simulator.workloads import Holding, Kind, Schedule


@dataclass(frozen=True, slots=True)
class SegmentRuns:
    """A block's holders: `columns` and `holdings` have a row for each, runs say where it holds.

    Runs of one GPU follow each other and fill the block; `changes` are the ticks (of the block)
    at which any GPU's holder becomes another.
    """

    columns: dict[str, pa.Array]
    holdings: list[Holding | None]
    rows: list[int]
    lengths: list[int]
    changes: set[int]


def segment_runs(
    schedule: Schedule, gpus: int, first: int, ticks: int, interval_ms: int
) -> SegmentRuns:
    """The holders of ticks first to first + ticks - 1."""
    holdings: list[Holding | None] = [None]
    rows: list[int] = []
    lengths: list[int] = []
    changes: set[int] = set()
    for gpu in range(gpus):
        at = 0
        for holding in schedule.holdings(gpu):
            start = max(at, -(-holding.start_ms // interval_ms) - first)
            end = min(ticks, -(-holding.end_ms // interval_ms) - first)
            if start >= ticks:
                break
            if end <= start:
                continue
            if start > at:
                rows.append(0)
                lengths.append(start - at)
            changes.update((start, end))
            rows.append(len(holdings))
            lengths.append(end - start)
            holdings.append(holding)
            at = end
        if at < ticks:
            rows.append(0)
            lengths.append(ticks - at)
    changes -= {0, ticks}
    return SegmentRuns(_columns(holdings), holdings, rows, lengths, changes)


def _columns(holdings: list[Holding | None]) -> dict[str, pa.Array]:
    rows = [_row(holding) for holding in holdings]
    names = ("kind", "start", "level", "trough", "period", "phase", "dip", "duty", "startup")
    shares = ("memory", "sm", "tensor", "dram")
    values = dict(zip((*names, *shares, "seed"), zip(*rows, strict=True), strict=True))
    seed = pa.array(values.pop("seed"), pa.uint64())
    return {name: pa.array(column, pa.int64()) for name, column in values.items()} | {"seed": seed}


def _row(holding: Holding | None) -> tuple[int, ...]:
    if holding is None:
        return (int(Kind.FREE), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    job, load = holding.job, holding.job.load
    return (
        int(job.kind),
        job.start_ms,
        load.level * 10,
        load.trough * 10,
        load.period_ms,
        load.phase_ms,
        load.dip_ms,
        load.duty,
        load.startup_ms,
        load.memory,
        load.sm,
        load.tensor,
        load.dram,
        job.number,
    )
