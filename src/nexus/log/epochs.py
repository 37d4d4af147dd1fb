"""Which leader epoch began at which offset, kept in `leader-epoch-checkpoint`.

The log's batches carry their epochs too, so what a crash takes from the file is found again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from nexus.log.files import write_file

FILE_NAME: Final = "leader-epoch-checkpoint"
UNKNOWN: Final = (-1, -1)


class LeaderEpochs:
    """Ascending (epoch, start offset) pairs; a change is durable after `save`."""

    __slots__ = ("dirty", "entries", "latest", "path")

    def __init__(self, path: Path, entries: tuple[tuple[int, int], ...] = ()) -> None:
        self.path = path
        self.entries = entries
        self.latest = entries[-1][0] if entries else -1
        self.dirty = False

    @classmethod
    def load(cls, directory: Path) -> LeaderEpochs:
        """The epochs of a log; none where the file is missing or damaged."""
        path = directory / FILE_NAME
        try:
            return cls(path, _parse(path.read_text("ascii")))
        except (FileNotFoundError, ValueError):
            return cls(path)

    def save(self) -> None:
        """Write the file durably, if something changed."""
        if not self.dirty:
            return
        self.dirty = False
        entries = self.entries
        lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
        try:
            write_file(self.path, "".join(f"{line}\n" for line in lines).encode("ascii"))
        except OSError:
            self.dirty = True
            raise

    def note(self, epoch: int, offset: int) -> None:
        """A batch of an epoch lies at an offset."""
        if epoch > self.latest:
            # An epoch that wrote nothing gives way to the one that did.
            kept = tuple(entry for entry in self.entries if entry[1] < offset)
            self._set((*kept, (epoch, offset)))

    def end_for(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """The last epoch at or below one that is asked for, and the offset where it ends."""
        entries = self.entries
        if not entries or epoch < 0 or epoch > self.latest:
            return UNKNOWN
        if epoch == self.latest:
            return epoch, end_offset
        after = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if after == 0:
            return epoch, entries[0][1]
        return entries[after - 1][0], entries[after][1]

    def cut_end(self, end_offset: int) -> None:
        """Forget what began at an offset or later."""
        keep = bisect_left(self.entries, end_offset, key=lambda entry: entry[1])
        if keep < len(self.entries):
            self._set(self.entries[:keep])

    def cut_start(self, start_offset: int) -> None:
        """Forget what ended before an offset; the epoch that reaches over it begins there."""
        entries = self.entries
        reaching = bisect_right(entries, start_offset, key=lambda entry: entry[1]) - 1
        if reaching >= 0 and (reaching > 0 or entries[0][1] < start_offset):
            self._set(((entries[reaching][0], start_offset), *entries[reaching + 1 :]))

    def _set(self, entries: tuple[tuple[int, int], ...]) -> None:
        self.entries = entries
        self.latest = entries[-1][0] if entries else -1
        self.dirty = True


def _parse(text: str) -> tuple[tuple[int, int], ...]:
    version, count, *lines = text.split("\n")
    if version != "0":
        raise ValueError(version)
    entries = tuple(
        (int(epoch), int(start)) for epoch, start in map(str.split, lines[: int(count)])
    )
    if len(entries) != int(count) or list(entries) != sorted(entries):
        raise ValueError(text)
    return entries
