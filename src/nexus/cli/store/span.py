"""The time that a command is about: --from and --to."""

import time
from typing import Annotated, NamedTuple

import typer

from nexus.cli.moments import parse_moment
from nexus.settings.errors import SettingsError

From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="2025-07-18T20:00:00Z or 24h (ago)."),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Up to, and without, this time.")
]


class Times(NamedTuple):
    """Microseconds since 1970: from `low` to before `high`; None is open."""

    low: int | None
    high: int | None


def times_of(from_: str | None, to: str | None) -> Times:
    """What the flags say."""
    found = Times(_micros(from_, "--from"), _micros(to, "--to"))
    if found.low is not None and found.high is not None and found.low >= found.high:
        raise SettingsError("flag --to: is not after --from")
    return found


def _micros(text: str | None, flag: str) -> int | None:
    return None if text is None else parse_moment(text, flag, time.time_ns() // 10**6) * 1000
