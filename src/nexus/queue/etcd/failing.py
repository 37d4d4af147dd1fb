"""A message that failed is tried again later; after the last attempt it is a dead letter."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nexus.etcd import LeaseNotFound
from nexus.queue.etcd.attempts import Failure, Places, next_failure
from nexus.queue.etcd.hands import Claimed
from nexus.queue.etcd.layout import Layout
from nexus.queue.etcd.settler import Settler
from nexus.queue.etcd.settling import Settlement, buried, failed


class Failing:
    """Settles failures for one worker."""

    def __init__(
        self,
        settler: Settler,
        layout: Layout,
        worker: str,
        max_attempts: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settler = settler
        self._layout = layout
        self._worker = worker
        self._max_attempts = max_attempts
        self._clock = clock
        self.buried = 0

    async def fail(
        self, claims: Sequence[Claimed], reason: str, note: Callable[[Claimed, Failure], None]
    ) -> list[Claimed]:
        """Count a failure of each; those that are dead letters now.

        `note` is told of those that are to be tried again.
        """
        now_ms = int(self._clock() * 1000)
        failures = [next_failure(each.attempts, reason, self._worker, now_ms) for each in claims]
        again = list(zip(claims, failures, strict=True))
        for claimed, failure in again:
            if failure.attempts < self._max_attempts:
                note(claimed, failure)
        try:
            await self._settler.each([self._settled(*each, leased=True) for each in again])
        except LeaseNotFound:  # a message's time ended just now: its count needs no end then
            left = [each for each in again if each[0].key in each[0].hand.pending]
            await self._settler.each([self._settled(*each, leased=False) for each in left])
        dead = [claimed for claimed, failure in again if failure.attempts >= self._max_attempts]
        self.buried += len(dead)
        return dead

    def _settled(self, claimed: Claimed, failure: Failure, *, leased: bool) -> Settlement:
        places = Places(self._layout, claimed.slot)
        if failure.attempts >= self._max_attempts:
            return buried(places, claimed, failure)
        return failed(places, claimed, failure, leased=leased)
