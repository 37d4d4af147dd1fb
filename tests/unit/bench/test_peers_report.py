"""The comparison's report: what it shows is what was measured, also where we lose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from peers.documents import BEGIN, END, replaced
from peers.plots import draw
from peers.report import markdown
from peers.results import About, Results, load, save
from peers.samples import Sample

from nexus.bench.report import Figure


def sample(system: str, rate: float, repeat: int, durability: str = "fsync") -> Sample:
    values = {
        "produce_per_s": rate,
        "consume_per_s": 2 * rate,
        "produce_cpu_s_per_million": 1e6 / rate,
        "consume_cpu_s_per_million": 1.0,
        "memory_mb": 50.0,
        "disk_bytes_per_message": 210.0,
        "messages": 1000.0,
    }
    return Sample(system, "throughput", "base", repeat, "200 B, fsync", durability, values)


@pytest.fixture
def results() -> Results:
    samples = [sample("nexus", rate, n) for n, rate in enumerate([100.0, 300.0, 200.0])]
    samples += [sample("redis", rate, n) for n, rate in enumerate([400.0, 500.0, 600.0])]
    samples += [sample("nats", 50.0, 0, "interval")]
    latency = {"p50_ms": 1.0, "p99_ms": 2.0, "p999_ms": 3.0, "rate_per_s": 1000.0, "messages": 9.0}
    samples.append(Sample("nexus", "latency", "base", 0, "200 B", "fsync", latency))
    ceiling = {"produce_per_s": 400.0}
    samples.append(Sample("nexus", "ceiling", "base", 0, "200 B", "none", ceiling))
    names = ("nexus", "redis", "nats")
    about = {name: About(name.title(), "1.0", "a client", {"fsync": "always"}) for name in names}
    return Results(
        date="2026-01-02",
        command="bench/compare.py --quick",
        machine="2 cores, ext4",
        busy=0.02,
        forced=False,
        systems=about,
        samples=samples,
        figures={"CSV to queue": [Figure("rows/s", "12", "")]},
    )


def row(report: str, section: str, begins: str) -> list[str]:
    lines = report.partition(f"### {section}")[2].splitlines()
    found = next(line for line in lines if line.startswith(f"| {begins}"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_a_cell_is_the_median_with_its_spread_and_the_best_is_bold(results: Results) -> None:
    cells = row(markdown(results), "Produce", "base")
    assert cells[1] == "200 (100 to 300)"
    assert cells[2] == "**500** (400 to 600)"


def test_a_system_with_another_durability_is_marked(results: Results) -> None:
    assert row(markdown(results), "Produce", "base")[3] == "50 °"


def test_where_we_lose_is_said_with_the_factor(results: Results) -> None:
    behind = markdown(results).partition("### Where we are behind")[2]
    assert "produce, messages/s, base: 200, Redis 500 (2.5 times)" in behind
    assert "memory" not in behind


def test_who_is_better_with_less_durability_is_said_to_be(results: Results) -> None:
    quick = [*results.samples, sample("nats", 9000.0, 1, "interval")]
    behind = markdown(replace(results, samples=quick)).partition("### Where we are behind")[2]
    assert "Nats 4,525 with interval, ours with fsync (22.6 times)" in behind


def test_the_share_of_the_ceiling_is_shown(results: Results) -> None:
    assert row(markdown(results), "The clients' own ceiling", "Nexus")[-1] == "50%"


def test_what_was_not_measured_is_a_dash(results: Results) -> None:
    assert row(markdown(results), "Latency", "latency p99,")[1:] == ["**2.00**", "-", "-"]


def test_a_busy_run_says_so_before_any_number(results: Results) -> None:
    said = markdown(replace(results, forced=True, busy=0.8))
    assert said.index("was busy") < said.index("### ")
    assert "was busy" not in markdown(results)


def test_the_report_has_its_command_and_the_pipelines_figures(results: Results) -> None:
    said = markdown(results)
    assert "`bench/compare.py --quick`" in said
    assert "| rows/s | 12 |" in said


def test_a_results_file_gives_the_same_report_again(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "results" / "2026-01-02.json"
    save(results, path)
    assert markdown(load(path)) == markdown(results)


def test_plots_are_drawn_for_what_was_measured(results: Results, tmp_path: Path) -> None:
    written = draw(results, tmp_path, "x-")
    assert written == ["x-produce.png", "x-consume.png", "x-latency.png", "x-cpu.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in written)


def test_results_in_the_docs_replace_those_before() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replaced(page, "new")
    assert once == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"
    assert replaced(once, "new") == once


def test_who_has_not_written_or_has_lost_the_messages_is_not_ahead(results: Results) -> None:
    def recovery(system: str, seconds: float, found: float) -> list[Sample]:
        said = {"recovery": {"seconds": seconds, "kept_mb": 1.0}, "survival": {"percent": found}}
        return [
            Sample(system, part, "recovery", 0, "64 KB", "fsync", values)
            for part, values in said.items()
        ]

    lazy = sample("nats", 50.0, 1)
    lazy = replace(lazy, values={**lazy.values, "disk_bytes_per_message": 3.0})
    more = [lazy, lazy, *recovery("nexus", 2.0, 100), *recovery("redis", 1.0, 100)]
    told = replace(results, samples=[*results.samples, *more, *recovery("nats", 0.1, 0)])
    behind = markdown(told).partition("### Where we are behind")[2]
    assert "start after kill -9, s, recovery: 2.00, Redis 1.00 (2.0 times)" in behind
    assert "disk" not in behind
    assert row(markdown(told), "Start and recovery", "of it found")[1:] == ["**100**", "100", "0"]
