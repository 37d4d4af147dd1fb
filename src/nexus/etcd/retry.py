"""Whether and when to try again: decisions only; clock and chance are the caller's.

A call has one deadline. Reads and lease calls are tried again whatever happened to them; writes
only while they were certainly not carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from nexus.etcd.errors import Ambiguous, AuthFailed, EtcdError, TokenRefused, Unavailable
from nexus.etcd.faults import Fate, Fault

LOGINS_MAX: Final = 2  # in one call; a third refusal has another reason


@dataclass(frozen=True)
class Backoff:
    """Pauses that double up to a bound, each of them anywhere between half and whole."""

    first_s: float = 0.05
    most_s: float = 1.0

    def pause_s(self, failures: int, chance: float) -> float:
        whole = min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return whole * (0.5 + chance / 2)


@dataclass
class Attempts:
    """One call's attempts, from its first to its answer or its error."""

    deadline: float
    attempt_s: float
    repeatable: bool
    chance: Callable[[], float]
    backoff: Backoff = field(default_factory=Backoff)
    _failures: int = 0
    _logins: int = 0

    def timeout_s(self, now: float) -> float:
        """How long the next attempt may take.

        A write that was sent cannot be tried elsewhere, so it gets all the time that is left.
        """
        left = max(0.001, self.deadline - now)
        return min(left, self.attempt_s) if self.repeatable else left

    def after(self, fault: Fault, now: float) -> float:
        """Seconds to pause before the next attempt; raises when there is to be none."""
        if isinstance(fault.error, TokenRefused):
            self._count_login(fault.error)
            return 0.0
        if fault.fate is Fate.REFUSED:
            raise fault.error
        if fault.fate is Fate.UNKNOWN and not self.repeatable:
            raise Ambiguous(f"{fault.error}: the write may or may not happen") from fault.error
        self._failures += 1
        pause = self.backoff.pause_s(self._failures, self.chance())
        if now + pause >= self.deadline:
            raise self._given_up(fault.error)
        return pause

    def _count_login(self, refused: EtcdError) -> None:
        self._logins += 1
        if self._logins > LOGINS_MAX:
            raise AuthFailed(str(refused)) from refused

    def _given_up(self, last: EtcdError) -> EtcdError:
        kind = type(last) if last.retriable else Unavailable
        kept = "" if self.repeatable else "; nothing was written"
        return kind(f"{last} (attempt {self._failures}, the last in time{kept})")
