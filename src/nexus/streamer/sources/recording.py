"""The recording that comes with Nexus: one H200 under changing load, second by second.

A first run has something real to replay; it is an ordinary CSV inside the package.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from nexus.streamer.sources.csv_source import CsvSource
from nexus.streamer.sources.port import SourceOptions

_NAME: Final = "h200_recording.csv.gz"


def recording_path() -> Path:
    """Where the recording lies."""
    return Path(str(files("nexus.streamer") / "samples" / _NAME))


def open_recording(_url: str, options: SourceOptions) -> CsvSource:
    """The source behind `recording://`."""
    return CsvSource(str(recording_path()), options)
