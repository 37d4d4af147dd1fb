"""What is said while another writes to a store: who that is, once."""

import sys
import time
from typing import Final

_told: set[str] = set()
_WAIT_S: Final = 0.5


def waiting(who: str) -> None:
    """Told once: the rest is patience."""
    if who not in _told:
        _told.add(who)
        print(f"waiting for {who} to let go of the store", file=sys.stderr)


def wait_for(who: str) -> None:
    """Say who is waited for, and wait a little."""
    waiting(who)
    time.sleep(_WAIT_S)
