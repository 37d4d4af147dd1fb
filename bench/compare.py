"""Nexus beside its peers on this machine: `make bench`.

    python bench/compare.py [--quick | --full] [--systems nexus,redis] [--only latency,ceiling]

Every system in turn, the same work, at least five repeats interleaved; about an hour on two
cores (--quick: some minutes, one repeat). Writes bench/results/<date>.json, the same as Markdown,
and plots. --report FILE writes those anew from a results file; --docs puts them into the docs.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from peers import matrix
from peers.busy import MOST_BUSY, busy_share, refusal
from peers.documents import put_into_docs
from peers.pipeline import PIPELINE_PARTS, pipeline_figures
from peers.plots import draw
from peers.report import markdown
from peers.results import About, Results, load, save
from peers.schedule import PARTS, Run
from peers.systems import SYSTEMS, client_of

from nexus.bench.report import Figure, machine

RESULTS: Final = Path(__file__).parent / "results"
PATIENCE_S: Final = 60.0  # what a system left to be written may keep the machine busy for a while
EVERYTHING: Final = (*PARTS, *PIPELINE_PARTS)


def main() -> None:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that servers end too
    if options.report:
        write(load(options.report), options.report, docs=options.docs)
        return
    share = busy_share()
    if (told := refusal(share)) is not None and not options.force:
        raise SystemExit(told)
    systems = installed(_words(options.systems, SYSTEMS, "system"))
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}.json"
    results = measured(options, systems, share, path)
    write(results, path, docs=options.docs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="one repeat, to see that all runs")
    scale.add_argument("--full", action="store_true", help="more points, for longer: some hours")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which, with commas between")
    parser.add_argument("--only", default=",".join(EVERYTHING), help="which parts")
    parser.add_argument("--points", help="which points of the load, by label")
    parser.add_argument("--repeats", type=int, help="how often (five unless told)")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()), help="disk")
    parser.add_argument("--force", action="store_true", help="on a busy machine too; marked so")
    parser.add_argument(
        "--docs", action="store_true", help="put the tables into docs/comparison.md"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write Markdown and plots anew")
    return parser


def _words(given: str, known: Collection[str], kind: str) -> list[str]:
    words = given.split(",")
    if wrong := [word for word in words if word not in known]:
        raise SystemExit(f"no such {kind}: {', '.join(wrong)}; there are: {', '.join(known)}")
    return words


def installed(names: list[str]) -> list[str]:
    """Those that can be started; what to install for the others is said."""
    there = []
    for name in names:
        told = SYSTEMS[name].missing()
        if told is None:
            there.append(name)
        else:
            print(f"left out: {SYSTEMS[name].title}: {told}", file=sys.stderr)
    return there


def scale_of(options: argparse.Namespace) -> matrix.Scale:
    scale = matrix.QUICK if options.quick else matrix.FULL if options.full else matrix.NORMAL
    if options.points:
        labels = {point.label: point for point in matrix.FULL_POINTS}
        chosen = _words(options.points, labels, "point")
        scale = replace(scale, points=[labels[label] for label in chosen])
    return replace(scale, repeats=options.repeats or scale.repeats)


def measured(options: argparse.Namespace, systems: list[str], share: float, path: Path) -> Results:
    """What was measured; `path` has it too, and after every round what there is by then."""
    parts = _words(options.only, EVERYTHING, "part")
    place = Path(tempfile.mkdtemp(prefix="nexus-bench-", dir=options.data))
    setting = machine(place)
    print(setting, file=sys.stderr)
    began = time.monotonic()
    run = Run(systems, scale_of(options), place, 0.0 if options.force else PATIENCE_S)

    def results(figures: Mapping[str, Sequence[Figure]]) -> Results:
        busy = max(share, run.busiest)
        return Results(
            date=path.stem,
            command=shlex.join(["bench/compare.py", *sys.argv[1:]]),
            machine=setting,
            busy=busy,
            forced=busy > MOST_BUSY,
            systems={name: _about(name) for name in SYSTEMS if name in systems},
            samples=run.samples,
            failures=run.failures,
            figures=figures,
        )

    try:
        if any(part in PARTS for part in parts):
            run.measure(parts, lambda: save(results({}), path))
        found = results(pipeline_figures(parts, place, quick=options.quick))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    save(found, path)
    print(f"{(time.monotonic() - began) / 60:.0f} minutes", file=sys.stderr)
    return found


def _about(name: str) -> About:
    system = SYSTEMS[name]
    words = {str(how): said for how, said in system.durability.items()}
    return About(system.title, system.version(), client_of(system.client).words, words)


def write(results: Results, path: Path, *, docs: bool) -> None:
    """Markdown and plots beside the results file."""
    plots = draw(results, path.parent, f"{path.stem}-")
    path.with_suffix(".md").write_text(markdown(results, plots))
    print(markdown(results))
    print(f"written: {path}, {path.with_suffix('.md').name}, {', '.join(plots)}", file=sys.stderr)
    if docs:
        put_into_docs(results, Path(__file__).parents[1] / "docs")


if __name__ == "__main__":
    main()
