"""Puts the tables and plots of a run into the docs, between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers.plots import draw
from peers.report import markdown
from peers.results import Results

BEGIN: Final = "<!-- results: written by `make bench ARGS=--docs` -->"
END: Final = "<!-- end of results -->"


def put_into_docs(results: Results, docs: Path) -> None:
    page = docs / "comparison.md"
    plots = draw(results, docs, "comparison-")
    page.write_text(replaced(page.read_text(), markdown(results, plots)))


def replaced(page: str, report: str) -> str:
    """The page with this report in the place of the one before."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise SystemExit("docs/comparison.md has lost the marks between which results stand")
    return f"{before}{BEGIN}\n\n{report}\n{END}{after}"
