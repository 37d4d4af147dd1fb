"""Where a query starts: what its options say, found once in the queue, and kept.

Spark asks for the start twice on a new query and again whenever its first batch is repeated. What
"latest" is changes in between, so the answer is written to a file before anything is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from nexus.pipeline.errors import PipelineError
from nexus.pipeline.source.options import At
from nexus.queue.port import Bounds

_VERSION: Final = 1


class BadStart(PipelineError):
    """Raised when a query cannot start where it was told to."""


def resolve(
    at: At,
    bounds: Mapping[int, Bounds],
    offsets_at: Callable[[int], Mapping[int, int]],
    *,
    name: Literal["start", "end"],
) -> dict[int, int]:
    """The offset in each partition that an option means; a partition it leaves out is at its edge.

    `offsets_at` finds the offsets of a moment, in milliseconds.
    """
    if at.edge == "earliest":
        return {partition: bound.start for partition, bound in bounds.items()}
    if at.edge == "latest":
        return {partition: bound.end for partition, bound in bounds.items()}
    if at.moment_ms is not None:
        found = offsets_at(at.moment_ms)
        return {p: min(found.get(p, bound.end), bound.end) for p, bound in bounds.items()}
    return _given(dict(at.offsets), bounds, name)


def kept(path: Path | None) -> dict[int, int] | None:
    """The offsets that a file keeps as the start; None if there is none yet."""
    said = kept_said(path)
    if said is None:
        return None
    try:
        return {int(partition): int(offset) for partition, offset in said.items()}
    except (ValueError, TypeError):
        raise _unclear(path) from None


def keep(path: Path, offsets: Mapping[int, int]) -> dict[int, int]:
    """Write a start unless another was first; the one that the file now keeps."""
    keep_said(path, {str(partition): offset for partition, offset in sorted(offsets.items())})
    written = kept(path)
    assert written is not None, f"{path} was removed at once"
    return written


def kept_said(path: Path | None) -> dict[str, Any] | None:
    """The same for a queue of any kind: the start as its planner said it."""
    if path is None:
        return None
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        return dict(json.loads(text)["offsets"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _unclear(path) from None


def keep_said(path: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    """Write a start unless another was first; the one that the file now keeps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w") as file:
        file.write(json.dumps({"version": _VERSION, "offsets": dict(said)}))
        file.flush()
        os.fsync(file.fileno())
    try:
        # A link, unlike a rename, never takes the place of a file that is there.
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()
    _sync_directory(path.parent)
    written = kept_said(path)
    assert written is not None, f"{path} was removed at once"
    return written


def _unclear(path: Path | None) -> BadStart:
    return BadStart(
        f"{path}: does not say where to start; remove it and the checkpoint to start anew"
    )


def _given(said: Mapping[int, int], bounds: Mapping[int, Bounds], name: str) -> dict[int, int]:
    for partition, offset in said.items():
        if partition not in bounds:
            raise BadStart(f"option {name}: there is no partition {partition} to read")
        if offset > bounds[partition].end:
            raise BadStart(
                f"option {name}: partition {partition} ends at {bounds[partition].end},"
                f" before the offset {offset}"
            )
    edges = {p: bound.start if name == "start" else bound.end for p, bound in bounds.items()}
    return {**edges, **said}


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
