"""Sends what `settling` makes: until it is known to have happened, or known that it cannot."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from nexus.etcd import Ambiguous, Client, Delete, EtcdError, Fenced, Limits, Put, fenced
from nexus.queue.etcd.counts import Tally
from nexus.queue.etcd.hands import ClaimLost, Hand
from nexus.queue.etcd.layout import Layout
from nexus.queue.etcd.settling import (
    ByHand,
    Settlement,
    apply,
    check,
    count_of,
    grouped,
    learn,
    parts_of,
    transaction,
)


class Settler:
    """Settles messages for one worker. `still_held` raises ClaimLost when its lease is lost."""

    def __init__(
        self,
        client: Client,
        layout: Layout,
        worker: str,
        *,
        limits: Limits,
        still_held: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._layout = layout
        self._worker = worker
        self._limits = limits
        self._still_held = still_held
        self._clock = clock
        self._tallies: list[Tally] = []
        self._tallies_made = 0
        self.conflicts = 0  # messages that came between those in hand, and had to be stepped over

    async def together(self, settlements: Sequence[Settlement]) -> None:
        """All in one transaction; TooManyOperations when it cannot hold them."""
        await self._settle(settlements, divisible=False)

    async def each(self, settlements: Iterable[Settlement]) -> None:
        """Each by itself, as many in one transaction as etcd takes."""
        small: list[Settlement] = []
        for settlement in settlements:
            ahead, rest = parts_of(settlement, self._limits)
            for effects in ahead:
                await self.fenced(settlement.claimed.hand, effects)
            small.append(rest)
        for group in grouped(small, self._limits):
            await self._settle(group, divisible=True)

    async def fenced(self, hand: Hand, effects: Sequence[Put | Delete]) -> None:
        """Effects that may be repeated, as the owner of the slot."""
        while True:
            self._still_held()
            try:
                await fenced(self._client, hand.fence, effects)
            except Ambiguous:
                continue
            except Fenced:
                raise ClaimLost(f"slot {hand.slot}: another worker owns it by now") from None
            return

    async def _settle(self, settlements: Sequence[Settlement], *, divisible: bool) -> None:
        by_hand = _by_hand(settlements)
        async with _locked(by_hand):
            _check_in_hand(settlements)
            await self._settle_locked(by_hand, divisible=divisible)

    async def _settle_locked(self, by_hand: ByHand, *, divisible: bool) -> None:
        with self._tally() as tally:
            if await self._sent(by_hand, tally, divisible=divisible):
                apply(by_hand)
                return
        for half in _halves(by_hand):
            await self._settle_locked(half, divisible=True)

    async def _sent(self, by_hand: ByHand, tally: Tally, *, divisible: bool) -> bool:
        """Whether it happened; False when so much came in between that it has to be divided."""
        taken = count_of(each for settled in by_hand.values() for each in settled)
        in_doubt = False
        while True:
            self._still_held()
            step = tally.step(taken, int(self._clock() * 1000))
            txn = transaction(by_hand, step, tally.get)
            if divisible and len(txn.then) > self._limits.operations:
                return False
            check(txn, self._limits)
            try:
                done = await self._client.txn(when=txn.when, then=txn.then, otherwise=txn.otherwise)
            except Ambiguous:
                in_doubt = True
                continue
            if done.succeeded:
                tally.done(step, done.revision)
                for hand in by_hand:
                    hand.record_revision = done.revision
                return True
            landed = learn(by_hand, done, in_doubt=in_doubt)
            tally.was_done(step, done.got(0).first)
            if landed:
                return True
            self.conflicts += 1

    @contextmanager
    def _tally(self) -> Iterator[Tally]:
        """A tally for one transaction; one that is in doubt is not used again."""
        tally = self._tallies.pop() if self._tallies else self._new_tally()
        try:
            yield tally
        except EtcdError:  # certainly nothing happened
            self._tallies.append(tally)
            raise
        self._tallies.append(tally)

    def _new_tally(self) -> Tally:
        self._tallies_made += 1
        who = f"{self._worker}-{self._tallies_made}"
        return Tally(self._layout.meta("taken", who), self._worker)


def _by_hand(settlements: Iterable[Settlement]) -> ByHand:
    by_hand: dict[Hand, list[Settlement]] = {}
    for each in settlements:
        by_hand.setdefault(each.claimed.hand, []).append(each)
    return by_hand


def _halves(by_hand: ByHand) -> tuple[ByHand, ByHand]:
    everything = [each for settled in by_hand.values() for each in settled]
    middle = len(everything) // 2
    if not middle:
        raise ClaimLost(f"{everything[0].claimed.key!r} cannot be settled in one transaction")
    return _by_hand(everything[:middle]), _by_hand(everything[middle:])


def _check_in_hand(settlements: Iterable[Settlement]) -> None:
    for each in settlements:
        if not each.claimed.in_hand:
            raise ClaimLost(f"{each.claimed.key!r} is not in hand: settled already, or lost")


@asynccontextmanager
async def _locked(by_hand: ByHand) -> AsyncIterator[None]:
    """One transaction at a time for each hand, always taken in the same order."""
    hands = sorted(by_hand, key=lambda hand: hand.record)
    held: list[Hand] = []
    try:
        for hand in hands:
            await hand.lock.acquire()
            held.append(hand)
        yield
    finally:
        for hand in held:
            hand.lock.release()
