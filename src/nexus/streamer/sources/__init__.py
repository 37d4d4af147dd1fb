"""Where readings come from: `open_source` makes the source that a URL names.

A kind of source is imported only when it is used, with whatever it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from nexus.streamer.errors import StreamerError
from nexus.streamer.sources.port import Source, SourceOptions

_KINDS: Final = {
    "csv": "nexus.streamer.sources.csv_source:CsvSource",
    "exporter": "nexus.streamer.sources.exporter:open_exporter",
    "nvml": "nexus.streamer.sources.nvml:open_nvml",
    "sim": "nexus.streamer.sources.sim:open_sim",
    "recording": "nexus.streamer.sources.recording:open_recording",
}
FILES: Final = frozenset({"csv", "recording"})


class UnknownSource(StreamerError):
    """Raised when no source has such a URL."""

    exit_code = 2


def kind_of(url: str) -> str:
    """The URL's scheme, which must be one that is known."""
    kind = url.partition("://")[0]
    if kind not in _KINDS:
        known = ", ".join(f"{name}://" for name in _KINDS)
        raise UnknownSource(f"source {url}: unknown kind; expected one of {known}")
    return kind


def open_source(url: str, options: SourceOptions) -> Source:
    """The source that a URL names; what is wrong with the URL is one clear error."""
    module, _, function = _KINDS[kind_of(url)].partition(":")
    make = cast("Callable[[str, SourceOptions], Source]", getattr(import_module(module), function))
    return make(url, options)
