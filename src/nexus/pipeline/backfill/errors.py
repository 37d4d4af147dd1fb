"""What can stop a backfill. Raised in Spark's workers, whose errors reach the driver as text."""

import re
from typing import Final

from nexus.pipeline.errors import PipelineError

_TOLD: Final = re.compile(r"backfill stopped: (.*)")
_SPLIT: Final = re.compile(r"\[split of file (\d+)\]")


class ArchiveError(PipelineError):
    """Raised when a file of the archive cannot be read as it was planned."""

    def __init__(self, why: str) -> None:
        super().__init__(f"backfill stopped: {why}")


class WrongSplit(ArchiveError):
    """Raised when a file was split where no row begins; it is then read in one piece."""

    def __init__(self, file: int, path: str, byte: int) -> None:
        super().__init__(
            f"a row of {path} goes on after byte {byte}, where it was split;"
            f" read it in one piece, with the option split_bytes=0 [split of file {file}]"
        )


def wrong_split(error: Exception) -> int | None:
    """The number of the file that was split in the wrong place, if that is what happened."""
    found = _SPLIT.search(str(error))
    return int(found[1]) if found else None


def plain_error(error: Exception) -> PipelineError | None:
    """What a worker said, without Spark's words around it; None when it said nothing."""
    found = _TOLD.search(str(error))
    return PipelineError(found[0].strip()) if found else None
