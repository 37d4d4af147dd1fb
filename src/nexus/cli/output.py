"""How commands print: tables on a terminal, aligned plain text in a pipe, JSON when asked.

Text that came from a message or another machine has its control characters escaped first.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def print_json(document: Any) -> None:
    """One document, indented on a terminal and on one line in a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(document, indent=indent, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their columns; numbers align to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [_is_numeric([row[at] for row in cells]) for at in range(len(columns))]
    if sys.stdout.isatty():
        _print_rich(columns, cells, numeric)
    else:
        _print_plain(columns, cells, numeric)


class Failures:
    """What failed while the rest went on: a line each on standard error, and exit code 1."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, message: str) -> None:
        self.count += 1
        print(f"nexus: {message}", file=sys.stderr)

    @property
    def exit_code(self) -> int:
        return 1 if self.count else 0


def printable(text: str) -> str:
    """Text that cannot move the cursor or ring the bell."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))


def _is_numeric(cells: list[str]) -> bool:
    return any(c != "-" for c in cells) and all(
        c == "-" or c.removeprefix("-").replace(",", "").isdecimal() for c in cells
    )


def _print_rich(columns: Sequence[str], cells: list[list[str]], numeric: list[bool]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def _print_plain(columns: Sequence[str], cells: list[list[str]], numeric: list[bool]) -> None:
    lines = [[column.upper().replace(" ", "-") for column in columns], *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(aligned).rstrip())
