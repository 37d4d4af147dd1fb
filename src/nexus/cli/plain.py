"""A plain `nexus broker --flag value …`, read without the command-line library.

That library takes longer to load than the broker takes to start. Everything else, help and
mistakes included, is left to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

_FLAGS: Final = ("--config", "--listen", "--http", "--data-dir", "--fsync", "--set")


@dataclass(frozen=True, slots=True)
class BrokerCall:
    """What `nexus broker` was told; the same whoever read it."""

    config: str | None = None
    listen: str | None = None
    http: str | None = None
    data_dir: Path | None = None
    fsync: str | None = None
    assigned: tuple[str, ...] = ()

    def start(self) -> int:
        """Runs the broker until it is stopped; its exit code."""
        from nexus.cli.config_place import loaded, read_config
        from nexus.cli.flags import broker_flags
        from nexus.settings import load_broker_settings
        from nexus.settings.broker import SECTIONS

        flags = broker_flags(
            listen=self.listen,
            http=self.http,
            data_dir=self.data_dir,
            fsync=self.fsync,
            assigned=self.assigned,
        )
        load = partial(load_broker_settings, flags=flags)
        settings, follow = loaded(self.config, load, SECTIONS)

        from nexus.broker.main import run

        reload = None if settings.file is None else lambda: load(read_config(self.config))
        return run(settings, follow=follow, reload=reload)


def plain_broker_call(arguments: Sequence[str]) -> BrokerCall | None:
    """The call, if it is `broker` followed by nothing but its flags and their values."""
    if not arguments or arguments[0] != "broker":
        return None
    given: dict[str, str] = {}
    assigned: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        flag, separator, value = word.partition("=")
        text = value if separator else next(words, None)
        if flag not in _FLAGS or text is None:
            return None
        if flag == "--set":
            assigned.append(text)
        else:
            given[flag] = text
    return BrokerCall(
        config=given.get("--config"),
        listen=given.get("--listen"),
        http=given.get("--http"),
        data_dir=_path(given.get("--data-dir")),
        fsync=given.get("--fsync"),
        assigned=tuple(assigned),
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
