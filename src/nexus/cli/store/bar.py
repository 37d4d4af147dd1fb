"""How far a copy is, on a terminal: days, rows, bytes, rate and what is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from nexus.pipeline.moving.copying import Told


class _Rows(ProgressColumn):
    """Rows of all rows, their bytes, and how many a second."""

    def render(self, task: Task) -> Text:
        of = f"/{task.total:,.0f}" if task.total else ""
        speed = f"{task.speed:,.0f} rows/s" if task.speed else "- rows/s"
        size = decimal(task.fields.get("size", 0))
        return Text(f"{task.completed:,.0f}{of} rows  {size}  {speed}", style="default")


@contextmanager
def progress_bar(console: Console) -> "Iterator[Callable[[Told], None]]":
    """Show what is told until the block ends."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        _Rows(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("listing days", total=None)

        def watch(told: "Told") -> None:
            said = f"{told.doing} {told.part.table} {told.part.day} ({told.number}/{told.of})"
            total = max(told.rows_total, told.rows, 1)  # the source may grow meanwhile
            progress.update(
                task, description=said, completed=told.rows, total=total, size=told.size
            )

        yield watch
