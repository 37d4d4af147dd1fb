"""Arguments that several topic commands share."""

from typing import Annotated

import typer

from nexus.settings.errors import SettingsError

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC…", help="One or more topics.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic setting; may be repeated."),
]


def assignments(texts: list[str] | None) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping; the broker judges the keys and values."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise SettingsError(
                f'flag --config: found "{text}", expected KEY=VALUE such as retention.ms=3600000'
            )
        pairs[key.strip()] = value.strip()
    return pairs
