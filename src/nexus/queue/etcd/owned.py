"""A slot that this worker owns: what was listed of it, what is in hand, and what failed before."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from nexus.etcd import Fence, Get, GetResult, Keys, KeyValue
from nexus.queue.etcd.attempts import Failure, Places
from nexus.queue.etcd.hands import Claimed, Hand
from nexus.queue.etcd.layout import Layout, Slot, timestamp_ns_of
from nexus.queue.etcd.picking import Runs, cut, runs_of

FIRST_LISTED: Final = 1_000
MOST_LISTED: Final = 20_000
# Deleted keys cost until they are compacted, so what is listed mostly is what sorts after all that
# was listed before. Publishers' clocks differ, though: now and then the last seconds are listed
# again, and more seldom everything.
_SKEW_NS: Final = 10_000_000_000
_RECENT_EVERY_S: Final = 0.1
_WHOLE_EVERY_S: Final = 1.0


class OwnedSlot:
    """The state of one slot. Listing and claiming go on only while it is not being released."""

    def __init__(
        self,
        layout: Layout,
        slot: Slot,
        fence: Fence,
        *,
        retry_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.slot = slot
        self.fence = fence
        self.places = Places(layout, slot)
        self.failures: dict[bytes, Failure] = {}
        self.hands: set[Hand] = set()
        self.releasing = False
        self.keys_most = MOST_LISTED
        self._layout = layout
        self._keys = layout.slot(slot)
        self._retry_s = retry_s
        self._clock = clock
        self._runs: Runs = deque()
        self._last = b""
        self._limit = FIRST_LISTED
        self._recent_at = self._whole_at = 0.0
        self._busy: frozenset[bytes] = frozenset()
        self._asked: tuple[Hand, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether keys are known that can be claimed."""
        return bool(self._runs) and not self.releasing

    @property
    def idle(self) -> bool:
        return not self._runs and not self.releasing

    def question(self, *, recent: bool = False) -> Get:
        """What to list next; with `recent` at least the last seconds."""
        self._busy = frozenset(key for hand in self.hands for key in hand.pending)
        self._asked = tuple(hand for hand in self.hands if not hand.revision)
        return Get(self._next_keys(recent), limit=self._limit + len(self._busy), keys_only=True)

    def listed(self, answer: GetResult) -> None:
        """Take the answer to the question."""
        self._limit = max(FIRST_LISTED, min(MOST_LISTED, answer.total // 8))
        if answer.items:
            last = answer.items[-1].key
            self._last = last if answer.more else max(self._last, last)
        self._runs = runs_of(answer.items, self._is_taken, self.failures.__contains__)

    def reach(self, readings: int, keys: int, worker: str) -> Hand | None:
        """A hand for the next messages, which are still to be read."""
        picked = cut(self._runs, readings, min(keys, self.keys_most))
        if not picked:
            return None
        record = self._layout.meta("claimed", str(self.slot), secrets.token_hex(8))
        now_ms = int(self._clock() * 1000)
        hand = Hand(self.slot, self.fence, record, picked[0], picked[-1], worker, now_ms)
        self.hands.add(hand)
        return hand

    def forget_listed(self) -> None:
        """List it all again."""
        self._runs.clear()
        self._whole_at = 0.0

    def list_fewer(self) -> None:
        """The values were too large for one answer: claim half as many keys from now on."""
        self.forget_listed()
        self.keys_most = max(1, self.keys_most // 2)

    def note(self, claimed: Claimed, failure: Failure) -> None:
        """A message failed and is to be tried again."""
        self.failures[claimed.key] = failure

    def settled(self, hand: Hand, gone: Iterable[bytes]) -> None:
        """These messages of a hand are out of the queue."""
        for key in gone:
            self.failures.pop(key, None)
        if not hand.pending:
            self.hands.discard(hand)

    def attempts(self) -> dict[bytes, int]:
        return {key: failure.attempts for key, failure in self.failures.items()}

    def _next_keys(self, recent: bool) -> Keys:
        now = time.monotonic()
        newest = timestamp_ns_of(self._last)
        if newest is None or now - self._whole_at >= _WHOLE_EVERY_S:
            self._recent_at = self._whole_at = now
            return self._keys
        if recent or now - self._recent_at >= _RECENT_EVERY_S:
            self._recent_at = now
            return Keys(self._keys.start + b"%019d" % max(0, newest - _SKEW_NS), self._keys.end)
        return self._keys.after(self._last)

    def _is_taken(self, item: KeyValue) -> bool:
        if item.key in self._busy or any(_reached(hand, item) for hand in self._asked):
            return True
        if any(_reached(hand, item) for hand in self.hands):
            return True
        failure = self.failures.get(item.key)
        return failure is not None and failure.again_at_ms(self._retry_s) > self._clock() * 1000


def _reached(hand: Hand, item: KeyValue) -> bool:
    if hand.revision:
        return item.key in hand.pending and item.mod_revision <= hand.revision
    return hand.first <= item.key <= hand.last
