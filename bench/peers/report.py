"""The results as Markdown: tables, and a list of where we are behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from peers.matrix import FULL_POINTS
from peers.results import Results
from peers.statistics import Spread
from peers.systems import OURS


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of numbers: which, how to write one, and whether more is better."""

    part: str
    key: str
    title: str
    text: Callable[[float], str]
    more_is_better: bool = False

    def best(self, spreads: Mapping[str, Spread]) -> str:
        choose = max if self.more_is_better else min
        return choose(spreads, key=lambda name: spreads[name].median)

    def behind(self, ours: float, other: float) -> float:
        """How many times better the other is; below 1 it is worse."""
        pair = (other, ours) if self.more_is_better else (ours, other)
        return pair[0] / pair[1] if pair[1] else 1.0


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _fine(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


PRODUCE: Final = Measure("throughput", "produce_per_s", "produce, messages/s", _whole, True)
CONSUME: Final = Measure("throughput", "consume_per_s", "consume, messages/s", _whole, True)
PRODUCE_CPU: Final = Measure(
    "throughput", "produce_cpu_s_per_million", "server CPU s per million, produce", _fine
)
CONSUME_CPU: Final = Measure(
    "throughput", "consume_cpu_s_per_million", "server CPU s per million, consume", _fine
)
MEMORY: Final = Measure("throughput", "memory_mb", "memory (PSS), MB", _whole)
DISK: Final = Measure("throughput", "disk_bytes_per_message", "disk, bytes a message", _whole)
START: Final = Measure("start", "seconds", "start to first ack, s", _fine)
RECOVERY: Final = Measure("recovery", "seconds", "start after kill -9, s", _fine)
SURVIVAL: Final = Measure("survival", "percent", "of it found again, %", _whole, True)
LATENCIES: Final = tuple(
    Measure("latency", f"{name}_ms", f"latency {title}, ms", _fine)
    for name, title in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))
)
SIZES: Final = {point.label: point.size for point in FULL_POINTS}
COSTS: Final = (PRODUCE_CPU, CONSUME_CPU, MEMORY, DISK)


def markdown(results: Results, plots: Sequence[str] = ()) -> str:
    """The whole report."""
    parts = [_setting(results), _systems(results)]
    parts += [_by_point(results, measure) for measure in (PRODUCE, CONSUME)]
    parts.append(_base_table(results, "Latency at a fixed rate", LATENCIES, _rate_row(results)))
    parts.append(_base_table(results, "What it costs the server, at the base point", COSTS))
    parts.append(_base_table(results, "Start and recovery", (START,), _recovery_rows(results)))
    parts.append(_ceilings(results))
    parts += [_figures(results, name) for name in results.figures]
    parts.append(_behind(results))
    parts += [f"![{plot.partition('.')[0]}]({plot})" for plot in plots]
    return "\n\n".join(part for part in parts if part) + "\n"


def _setting(results: Results) -> str:
    busy = f"others used up to {results.busy:.0%} of the CPU time when a round began"
    lines = [
        f"Measured on {results.date} by `{results.command}` on {results.machine}; {busy}.",
    ]
    if results.forced:
        lines.append(
            "**The machine was busy: these numbers show that everything runs, not how fast.**"
        )
    if results.failures:
        lines.append("Failed:\n" + "\n".join(f"- {one}" for one in results.failures))
    return "\n\n".join(lines)


def _systems(results: Results) -> str:
    rows = []
    for about in results.systems.values():
        offered = "; ".join(f"{how}: {words}" for how, words in about.durability.items())
        rows.append([about.title, about.version, offered, about.client])
    head = ["system", "version", "durability: how it is set", "load by"]
    return "### The systems\n\n" + table(head, rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _titles(results: Results) -> list[str]:
    return [about.title for about in results.systems.values()]


def _cells(results: Results, measure: Measure, label: str) -> list[str]:
    """One cell for each system: median, least to most; the best is bold."""
    spreads = results.spreads(measure.part, measure.key, label)
    if not spreads:
        return ["-"] * len(results.systems)
    best = measure.best(spreads)
    return [
        _cell(measure, spreads[name], bold=name == best) if name in spreads else "-"
        for name in results.systems
    ]


def _cell(measure: Measure, spread: Spread, *, bold: bool) -> str:
    middle = measure.text(spread.median)
    middle = f"**{middle}**" if bold else middle
    if spread.count == 1:
        return middle
    return f"{middle} ({measure.text(spread.least)} to {measure.text(spread.most)})"


def _by_point(results: Results, measure: Measure) -> str:
    rows = []
    for label in results.labels(measure.part):
        samples = results.of(measure.part, label)
        setting = _asked(label, [s.setting for found in samples.values() for s in found[:1]])
        cells = _cells(results, measure, label)
        rows.append([setting, *_marked(results, measure.part, label, cells)])
    if not rows:
        return ""
    note = (
        "Median (least to most). ° The system does not offer the durability asked for, and ran with"
        " its nearest: see above."
    )
    title = measure.title[0].upper() + measure.title[1:]
    return f"### {title}\n\n" + table(["", *_titles(results)], rows) + f"\n\n{note}"


def _asked(label: str, settings: Sequence[str]) -> str:
    """The label, and the load with the durability that most systems had."""
    return f"{label}: {max(set(settings), key=settings.count)}"


def _marked(results: Results, part: str, label: str, cells: Sequence[str]) -> Iterator[str]:
    """A sign at those whose durability is not the one that most had."""
    had = {name: samples[0].durability for name, samples in results.of(part, label).items()}
    usual = max(set(had.values()), key=list(had.values()).count) if had else ""
    for name, cell in zip(results.systems, cells, strict=True):
        yield f"{cell} °" if name in had and had[name] != usual else cell


def _base_table(
    results: Results,
    title: str,
    measures: Sequence[Measure],
    more: Sequence[Sequence[str]] = (),
) -> str:
    rows = [
        [measure.title, *_marked(results, measure.part, "base", _cells(results, measure, "base"))]
        for measure in measures
        if results.of(measure.part)
    ]
    rows += [list(row) for row in more]
    return f"### {title}\n\n" + table(["", *_titles(results)], rows) if rows else ""


def _rate_row(results: Results) -> list[list[str]]:
    spreads = results.spreads("latency", "rate_per_s")
    if not spreads:
        return []
    cells = [_whole(spreads[n].median) if n in spreads else "-" for n in results.systems]
    return [["rate, messages/s", *cells]]


def _recovery_rows(results: Results) -> list[list[str]]:
    kept = results.spreads("recovery", "kept_mb", "recovery")
    if not kept:
        return []
    megabytes = max(spread.median for spread in kept.values())
    title = f"{RECOVERY.title}, {megabytes:,.0f} MB kept"
    rows = [[title, *_cells(results, RECOVERY, "recovery")]]
    if results.of(SURVIVAL.part, "recovery"):
        rows.append([SURVIVAL.title, *_cells(results, SURVIVAL, "recovery")])
    return rows


def _ceilings(results: Results) -> str:
    """What the client itself can do, and which share of it the system reached."""
    ceilings = results.spreads("ceiling", "produce_per_s")
    if not ceilings:
        return ""
    reached = results.spreads(PRODUCE.part, PRODUCE.key)
    rows = []
    for name, spread in ceilings.items():
        share = f"{reached[name].median / spread.median:.0%}" if name in reached else "-"
        about = results.systems[name]
        rows.append([about.title, about.client, _cell(PRODUCE, spread, bold=False), share])
    head = ["system", "client", "against a server that discards, messages/s", "reached at the base"]
    note = "Where the share is high, the client is the limit, not the system."
    return "### The clients' own ceiling\n\n" + table(head, rows) + f"\n\n{note}"


def _figures(results: Results, name: str) -> str:
    rows = [[figure.measure, figure.value] for figure in results.figures[name]]
    return f"### {name}\n\n" + table(["measure", "value"], rows)


def _behind(results: Results) -> str:
    """Every number in which another system is better than ours, the worst first."""
    found: list[tuple[float, str]] = []
    measures = (PRODUCE, CONSUME, *COSTS, *LATENCIES, START, RECOVERY, SURVIVAL)
    for measure in measures:
        for label in results.labels(measure.part):
            spreads = _comparable(results, measure, label)
            if OURS in spreads:
                found += _better(results, measure, label, spreads)
    if OURS not in results.systems or len(results.systems) < 2:
        return ""
    lines = [line for _, line in sorted(found, reverse=True)] or ["- Nowhere in this run."]
    return "### Where we are behind\n\n" + "\n".join(lines)


def _comparable(results: Results, measure: Measure, label: str) -> dict[str, Spread]:
    """Without who has not written the messages yet, or has lost them: that is no saving."""
    spreads = results.spreads(measure.part, measure.key, label)
    if measure is DISK:
        size = SIZES[label]
        return {name: spread for name, spread in spreads.items() if spread.median >= size}
    if measure is RECOVERY:
        found = results.spreads(SURVIVAL.part, SURVIVAL.key, label)
        lost = {name for name, spread in found.items() if spread.median < 100}
        return {name: spread for name, spread in spreads.items() if name not in lost}
    return spreads


def _better(
    results: Results, measure: Measure, label: str, spreads: Mapping[str, Spread]
) -> Iterator[tuple[float, str]]:
    best = measure.best(spreads)
    times = measure.behind(spreads[OURS].median, spreads[best].median)
    if best != OURS and times > 1:
        ours, theirs = (measure.text(spreads[name].median) for name in (OURS, best))
        title = results.systems[best].title
        had = {name: results.of(measure.part, label)[name][0].durability for name in (OURS, best)}
        weaker = f" with {had[best]}, ours with {had[OURS]}" if had[best] != had[OURS] else ""
        line = f"- {measure.title}, {label}: {ours}, {title} {theirs}{weaker} ({times:.1f} times)"
        yield times, line
