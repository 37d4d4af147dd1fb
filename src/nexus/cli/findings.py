"""A doctor's findings on a terminal: how bad, what, and what to do about it."""

from collections.abc import Sequence
from typing import Final

from nexus.cli.output import printable

# Level (ok, warning or problem), check, what was found, advice.
Row = tuple[str, str, str, str]
_STYLES: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def print_findings(findings: Sequence[Row]) -> None:
    """A line for each, and how many are bad."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    width = max(len(check) for _, check, _, _ in findings)
    for level, check, found, advice in findings:
        line = Text(f"{level:<8}", style=_STYLES[level])
        line.append(f" {check:<{width}}  {printable(found)}", style="default")
        if advice:
            line.append(f"\n{'':<{width + 11}}→ {printable(advice)}", style="default")
        console.print(line)
    problems = sum(level == "problem" for level, *_ in findings)
    warnings = sum(level == "warning" for level, *_ in findings)
    said = f"{problems} problems, {warnings} warnings" if problems or warnings else "all is well"
    console.print(Text(said, style="bold"))
