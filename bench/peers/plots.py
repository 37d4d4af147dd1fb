"""The results as pictures: throughput by point, latency, CPU of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from peers.report import CONSUME, LATENCIES, PRODUCE, PRODUCE_CPU, Measure
from peers.results import Results
from peers.statistics import Spread


def draw(results: Results, folder: Path, prefix: str) -> list[str]:
    """The files that were written: those for which there are numbers."""
    busy = " (busy machine)" if results.forced else ""
    drawings = {
        "produce": _points(results, PRODUCE),
        "consume": _points(results, CONSUME),
        "latency": {m.title: results.spreads(m.part, m.key) for m in LATENCIES},
        "cpu": _points(results, PRODUCE_CPU),
    }
    titles = {
        "produce": PRODUCE.title,
        "consume": CONSUME.title,
        "latency": "end to end at a fixed rate, ms",
        "cpu": PRODUCE_CPU.title,
    }
    written = []
    for name, groups in drawings.items():
        if any(groups.values()):
            file = f"{prefix}{name}.png"
            _bars(results, titles[name] + busy, groups, folder / file)
            written.append(file)
    return written


def _points(results: Results, measure: Measure) -> dict[str, dict[str, Spread]]:
    return {
        label: results.spreads(measure.part, measure.key, label)
        for label in results.labels(measure.part)
    }


def _bars(
    results: Results, title: str, groups: Mapping[str, Mapping[str, Spread]], path: Path
) -> None:
    """A group of bars for each point, a bar for each system, a whisker from least to most."""
    names = list(results.systems)
    inches = (max(8.0, 1.6 + 1.3 * len(groups)), 4.0)  # room for the names below
    figure, axes = plt.subplots(figsize=inches, layout="constrained")
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        at = [g + place * width for g, spreads in enumerate(groups.values()) if name in spreads]
        found = [spreads[name] for spreads in groups.values() if name in spreads]
        axes.bar(
            at,
            [spread.median for spread in found],
            width,
            yerr=_whiskers(found),
            label=results.systems[name].title,
            error_kw={"linewidth": 0.8},
        )
    axes.set_yscale("log")
    axes.set_title(title, loc="left")
    axes.set_xticks([g + 0.4 - width / 2 for g in range(len(groups))], list(groups), fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
    plt.close(figure)


def _whiskers(found: Sequence[Spread]) -> list[list[float]]:
    return [
        [spread.median - spread.least for spread in found],
        [spread.most - spread.median for spread in found],
    ]
