"""What the leader of a partition knows: how far its followers are, and so what is safe.

No clock and no log of its own: it is told what happened and when. The high watermark is the least
end over the in-sync set, and over those who are about to join it, of what each has safely on disk
as told *in this epoch*. So nothing is acknowledged that a possible next leader lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from nexus.cluster.partition_state import PartitionState, stepped_aside, with_in_sync

Mode = Literal["sync", "quorum", "async"]
_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Rules:
    """When a follower counts as in sync, and how many must be."""

    lag_s: float = 10.0
    lag_records: int = 1000
    min_in_sync: int = 1
    mode: Mode = "sync"

    def least(self, replicas: int) -> int:
        """How many must be in sync for a write to be taken."""
        return (
            max(self.min_in_sync, replicas // 2 + 1) if self.mode == "quorum" else self.min_in_sync
        )


@dataclass(slots=True)
class _Follower:
    end: int = -1  # what it has, as it told in this epoch; -1 before it told
    caught_up_at: float = _NEVER
    asked_at: float = _NEVER  # when it asked last, and where the leader's log ended then
    asked_end: int = 0


@dataclass(slots=True)
class Leading:
    """One leadership: from the start of an epoch to its end."""

    me: int
    state: PartitionState
    rules: Rules
    end: int  # of the own log
    flushed: int  # of what is safe of it
    high_watermark: int
    began_at: float
    first: int = field(init=False)  # where this epoch begins in the log
    _followers: dict[int, _Follower] = field(init=False, default_factory=dict)
    _proposed: PartitionState | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.first = self.end
        self._know(self.state)
        self._advance()

    @property
    def is_settled(self) -> bool:
        """Whether all that was acknowledged before this epoch is below the watermark again.

        Until then the watermark may lie below one that clients have seen: it is not to be shown.
        """
        return self.high_watermark >= self.first

    @property
    def takes_writes(self) -> bool:
        """Whether enough replicas are in sync."""
        return len(self.state.in_sync) >= self.rules.least(len(self.state.replicas))

    @property
    def proposal(self) -> PartitionState | None:
        """The state that this leader asked for and has no answer to yet."""
        return self._proposed

    def appended(self, end: int) -> None:
        self.end = end

    def was_flushed(self, end: int) -> bool:
        """The own log is safe up to here; whether the watermark moved."""
        self.flushed = end
        return self._advance()

    def fetched(self, node: int, epoch: int, offset: int, now: float) -> bool:
        """A follower asks for what comes next, so it has all before; whether the watermark moved.

        What it says of another epoch says nothing: its log may differ from this one.
        """
        follower = self._followers.get(node)
        if follower is None or epoch != self.state.epoch or offset > self.end:
            return False
        follower.end = offset
        if self.end - offset <= self.rules.lag_records:
            follower.caught_up_at = now
        elif offset >= follower.asked_end:
            # It has all that there was then: under load it is always a fetch behind.
            follower.caught_up_at = max(follower.caught_up_at, follower.asked_at)
        follower.asked_at, follower.asked_end = now, self.end
        return self._advance()

    def propose(self, now: float, fit: Mapping[int, int]) -> PartitionState | None:
        """The state as it should be, if it should change and no answer is awaited.

        `fit` has every live broker, with the version from which on a state may count on it: what it
        told before that, another process told that may have lost it since.
        """
        if self._proposed is not None:
            return None
        version = self.state.version
        known = {n for n in self._followers if version >= fit.get(n, version + 1)}
        members = {self.me, *(n for n in known if self._belongs(n, now))}
        if members == set(self.state.in_sync):
            return None
        others = known & set(self.state.in_sync)
        least = self.rules.least(len(self.state.replicas))
        if others and len(members) < least and self._is_cut_off(least, now, fit):
            self._proposed = stepped_aside(self.state, others)
        else:
            self._proposed = with_in_sync(self.state, members)
        return self._proposed

    def _is_cut_off(self, least: int, now: float, live: Collection[int]) -> bool:
        """Whether enough followers live to write without this broker, and none of them asks it."""
        around = [follower for node, follower in self._followers.items() if node in live]
        return len(around) >= least and all(
            now - max(follower.asked_at, self.began_at) > self.rules.lag_s for follower in around
        )

    def agreed(self, state: PartitionState) -> bool:
        """The state is now this one, of this epoch; whether the watermark moved."""
        if state.version < self.state.version:
            return False
        for node in set(self.state.in_sync) - set(state.in_sync):
            self._followers.pop(node, None)  # it has to tell anew what it has
        self.state = state
        self._proposed = None
        self._know(state)
        return self._advance()

    def ends(self) -> Mapping[int, int]:
        """How far each follower is, as it told."""
        return {node: follower.end for node, follower in self._followers.items()}

    def behind_s(self, now: float) -> Mapping[int, float]:
        """How long ago each follower had everything, or this leadership began."""
        return {
            node: max(now - max(follower.caught_up_at, self.began_at), 0.0)
            for node, follower in self._followers.items()
        }

    def _belongs(self, node: int, now: float) -> bool:
        follower = self._followers[node]
        if node in self.state.in_sync:
            return now - max(follower.caught_up_at, self.began_at) <= self.rules.lag_s
        # It must have everything that may be acknowledged, also of epochs before.
        has_all = follower.end >= max(self.high_watermark, self.first)
        return has_all and now - follower.caught_up_at <= self.rules.lag_s

    def _know(self, state: PartitionState) -> None:
        others = [node for node in state.replicas if node != self.me]
        self._followers = {node: self._followers.get(node, _Follower()) for node in others}

    def _needed(self) -> Collection[int]:
        proposed = self._proposed.in_sync if self._proposed is not None else ()
        return {*self.state.in_sync, *proposed} - {self.me}

    def _advance(self) -> bool:
        ends = [f.end for node in self._needed() if (f := self._followers.get(node)) is not None]
        least = min([self.flushed, *ends])
        if least <= self.high_watermark:
            return False
        self.high_watermark = least
        return True
