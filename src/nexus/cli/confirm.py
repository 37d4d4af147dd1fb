"""A question before something is lost; in a script, where nobody answers, --yes must be given."""

import sys
from typing import Annotated

import typer

from nexus.settings.errors import SettingsError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, yes: bool) -> None:
    """Returns when the answer is yes; any other answer ends the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError(f"{question} Nobody is here to answer: give --yes")
    typer.confirm(question, abort=True, err=True)
