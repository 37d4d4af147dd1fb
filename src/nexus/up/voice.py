"""Says things: calm lines with one live line below them on a terminal, plain lines or JSON else."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from nexus.up.events import Notice
from nexus.up.machine import House
from nexus.up.summary import Summary
from nexus.up.watch import Sight
from nexus.up.words import Facts, Sort, line_of, object_of, status_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

_STYLES: Final = {"good": "green", "bad": "bold red", "plain": "bold", "quiet": "dim"}


class Voice(Protocol):
    """How `nexus up` talks."""

    def notice(self, notice: Notice) -> None:
        """Something happened."""

    def show(self, sight: Sight, house: House) -> None:
        """How it goes now."""

    def summary(self, summary: Summary) -> None:
        """How it went."""

    def close(self) -> None:
        """The last word was said; safe to call twice."""


def voice_for(facts: Facts, *, as_json: bool) -> Voice:
    if as_json:
        return JsonVoice(facts)
    return TerminalVoice(facts) if sys.stdout.isatty() else PlainVoice(facts)


class PlainVoice:
    """A line for each thing that happens."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._has_rows = False

    def notice(self, notice: Notice) -> None:
        told = line_of(notice, self._facts)
        if told is not None:
            self.line(*told)

    def show(self, sight: Sight, house: House) -> None:
        if sight.rows_after_s is not None and not self._has_rows:
            self._has_rows = True
            self.line(f"first readings to see after {sight.rows_after_s:.1f} s", "good")

    def summary(self, summary: Summary) -> None:
        for line in summary.lines():
            self.line(line, "plain")

    def close(self) -> None:
        """Nothing is held."""

    def line(self, text: str, sort: Sort) -> None:
        print(text, flush=True)


class TerminalVoice(PlainVoice):
    """The same in colours, above one line that is drawn over itself."""

    def __init__(self, facts: Facts, console: Console | None = None) -> None:
        from rich.console import Console as RichConsole  # noqa: PLC0415 - only a terminal needs it

        super().__init__(facts)
        self._console = console or RichConsole(highlight=False)
        self._live: Live | None = None

    def show(self, sight: Sight, house: House) -> None:
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        super().show(sight, house)
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        line = Text(status_line(sight, house), style="dim", overflow="ellipsis", no_wrap=True)
        self._live.update(line, refresh=True)

    def summary(self, summary: Summary) -> None:
        self.close()
        super().summary(summary)

    def close(self) -> None:
        """The terminal is as it was."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def line(self, text: str, sort: Sort) -> None:
        from rich.text import Text  # noqa: PLC0415

        self._console.print(Text(text, style=_STYLES[sort]))


class JsonVoice:
    """An object a line; the last one is the summary."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._has_rows = False

    def notice(self, notice: Notice) -> None:
        self._print(object_of(notice, self._facts))

    def show(self, sight: Sight, house: House) -> None:
        if sight.rows_after_s is not None and not self._has_rows:
            self._has_rows = True
            self._print({"event": "rows", "seconds": round(sight.rows_after_s, 3)})

    def summary(self, summary: Summary) -> None:
        self._print({"event": "summary", **summary.document()})

    def close(self) -> None:
        """Nothing is held."""

    def _print(self, said: dict[str, Any]) -> None:
        print(json.dumps(said, default=str), flush=True)
