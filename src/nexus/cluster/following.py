"""What a follower does: find where its log and the leader's part, cut there, and copy on.

No log of its own: it says what to ask of the leader and what to do with the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Epochs(Protocol):
    """Which epoch began where in the own log (`nexus.log.epochs`)."""

    @property
    def latest(self) -> int: ...
    def end_for(self, epoch: int, end_offset: int) -> tuple[int, int]: ...


class AskEpoch(NamedTuple):
    """Ask the leader where this epoch ends in its log."""

    epoch: int


class AskRecords(NamedTuple):
    """Ask the leader for what comes from this offset on."""

    offset: int


@dataclass(slots=True)
class Following:
    """One partition in one epoch of its leader."""

    leader: int
    epoch: int
    is_aligned: bool = False  # whether all of the own log is the leader's too

    def next(self, epochs: Epochs, end: int) -> AskEpoch | AskRecords:
        """What to ask now. An empty log agrees with every other."""
        if not self.is_aligned and epochs.latest < 0:
            self.is_aligned = True
        return AskRecords(end) if self.is_aligned else AskEpoch(epochs.latest)

    def epoch_ends(self, epochs: Epochs, end: int, epoch: int, offset: int) -> int | None:
        """The leader's answer to AskEpoch; where to cut the own log, None if nowhere.

        The leader names the last epoch that it has at or below the one asked for, and its end. If
        this log never had that one, it goes down to the last that it has below, and asks again.
        """
        if epoch < 0:  # it does not know that it leads yet
            return None
        own_epoch, own_end = epochs.end_for(epoch, end)
        self.is_aligned = own_epoch == epoch
        cut = min(offset, own_end)
        return cut if cut < end else None
