"""What the cluster has agreed on about one partition, and how that may change.

It is one value that is replaced as a whole by whoever compares its version: the controller, when
brokers come and go, and the leader, when followers fall behind or catch up. Safety never rests on
time: an acknowledged record is on every member of the in-sync set, and only a member may lead.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, who leads it in which epoch, and who has all that is acknowledged."""

    replicas: tuple[int, ...]  # the first should lead
    leader: int
    epoch: int
    in_sync: tuple[int, ...]  # in the order of their ids
    target: tuple[int, ...] = ()  # the replicas that it moves to; empty while it does not move
    version: int = 0  # of the value as it was read; whoever replaces it compares this

    @property
    def is_offline(self) -> bool:
        return self.leader == NOBODY

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.target or self.replicas)


def first_state(replicas: tuple[int, ...], live: Collection[int]) -> PartitionState:
    """A new partition: empty logs are all alike, so every live replica is in sync."""
    in_sync = tuple(sorted(node for node in replicas if node in live))
    leader = next((node for node in replicas if node in live), NOBODY)
    return PartitionState(replicas, leader, 0, in_sync or tuple(sorted(replicas)))


def elected(
    state: PartitionState, live: Collection[int], *, unclean: bool = False
) -> PartitionState:
    """The state once the dead are left out: the same value if nothing has to change.

    A leader that is gone is followed by the first replica that is in sync and lives. Where there
    is none, nobody leads, and the in-sync set stays as it is: its members have all there is.
    `unclean` lets any replica that lives lead then, at the price of what only others had.
    """
    alive = tuple(node for node in state.in_sync if node in live)
    if state.leader in live:
        return state if alive == state.in_sync else replace(state, in_sync=alive)
    leader = next((node for node in state.replicas if node in alive), NOBODY)
    if leader != NOBODY:
        return replace(state, leader=leader, epoch=state.epoch + 1, in_sync=alive)
    any_live = next((node for node in state.replicas if node in live), NOBODY)
    if unclean and any_live != NOBODY:
        return replace(state, leader=any_live, epoch=state.epoch + 1, in_sync=(any_live,))
    if state.is_offline:
        return state
    return replace(state, leader=NOBODY, epoch=state.epoch + 1)


def handed_over(
    state: PartitionState, live: Collection[int], leaving: Collection[int] = ()
) -> PartitionState:
    """The state with the leader that it should have: the first in-sync replica that stays."""
    fit = [n for n in state.replicas if n in live and n in state.in_sync and n not in leaving]
    if not fit or fit[0] == state.leader or state.is_offline:
        return state
    return replace(state, leader=fit[0], epoch=state.epoch + 1)


def restarted(state: PartitionState, node: int, *, kept_all: bool) -> PartitionState:
    """The state once a broker is back as a new process.

    A leadership does not outlive its process: a new epoch begins. A broker that may have lost what
    was acknowledged (`kept_all` is false) leaves the in-sync set, unless it is the last one there.
    """
    others = tuple(member for member in state.in_sync if member != node)
    if not kept_all and others and node in state.in_sync:
        state = replace(state, in_sync=others)
    if state.leader != node:
        return state
    return replace(state, leader=NOBODY, epoch=state.epoch + 1)


def moving(state: PartitionState, target: tuple[int, ...]) -> PartitionState:
    """The state that makes new replicas beside the old ones; they count once they are in sync."""
    added = tuple(node for node in target if node not in state.replicas)
    if target == state.replicas:
        return replace(state, target=())
    return replace(state, replicas=state.replicas + added, target=target)


def moved(state: PartitionState, live: Collection[int]) -> PartitionState:
    """The state without the old replicas, once every new one is in sync; until then the same."""
    if not state.target or not set(state.target) <= set(state.in_sync):
        return state
    in_sync = tuple(node for node in state.in_sync if node in state.target)
    stays = state.leader in state.target
    leader = state.leader if stays else next(n for n in state.target if n in in_sync)
    if not stays and leader not in live:
        return state
    epoch = state.epoch if stays else state.epoch + 1
    return PartitionState(state.target, leader, epoch, in_sync, (), state.version)


def with_in_sync(state: PartitionState, members: Collection[int]) -> PartitionState:
    """The state with another in-sync set, as its leader proposes it."""
    return replace(state, in_sync=tuple(sorted(members)))


def stepped_aside(state: PartitionState, others: Collection[int]) -> PartitionState:
    """The state once its leader makes way for others that are in sync: it does not reach them."""
    leader = next(node for node in state.replicas if node in others)
    return replace(state, leader=leader, epoch=state.epoch + 1, in_sync=tuple(sorted(others)))
