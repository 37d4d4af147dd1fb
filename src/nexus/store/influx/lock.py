"""The right to write to a store, as far as InfluxDB can say who has it.

It has no locks and compares nothing before it writes. So a writer says in a point that it is there,
again and again; one that does not for a while, or whose process is gone from this machine, is
taken over from. A commit is made only by who reads its own turn there just before. Two writers can
still overlap for a moment: their commits do not overwrite each other, since each has its turn in
its tags, and points that both write are the same points.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from nexus.lake.errors import Fenced, StoreError, StoreOut
from nexus.store.influx.journal import Entry, Journal, State
from nexus.store.influx.layout import OWN, place_of
from nexus.store.influx.lines import series_key, tag_text, text_field
from nexus.store.influx.schema import check, check_policies, make, version_of
from nexus.store.influx.talking import Influx
from nexus.store.influx.url import InfluxUrl

BEAT_S: Final = 3.0
SILENT_S: Final = 15.0  # after which a writer is taken for gone
SETTLE_S: Final = 0.2  # between a claim and the look whether it stands


@dataclass(frozen=True, slots=True)
class Claim:
    """Who writes; times are of nobody's clock: a beat is a number that grows."""

    epoch: int
    owner: str
    id: str
    host: str  # with the space of process numbers in it
    pid: int
    started: str  # of the process
    beat: int = 0


class InfluxLock:
    """The writer's turn in one store, with the journal that only its holder writes."""

    def __init__(
        self,
        place: InfluxUrl,
        owner: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.place = place
        self.influx = Influx(place)
        self._owner = owner
        self._id = secrets.token_hex(8)
        self._clock = clock
        self._sleep = sleep
        self._guard = threading.RLock()
        self._claim: Claim | None = None
        self._journal: Journal | None = None
        self._state = State()
        self._seen: tuple[Claim, float] | None = None
        self._is_lost = False
        self._released = threading.Event()
        self._beating: threading.Thread | None = None

    def acquire(self, wait: Callable[[str], None] | None = None) -> None:
        """Take the turn; while another has it, `wait` is called with who that is.

        Database and policies are made where there are none.
        """
        while True:
            try:
                self.held()
                return
            except _Taken as taken:
                if wait is None:
                    raise
                wait(taken.by)

    def held(self) -> tuple[State, int]:
        """What is the case, and the turn; Fenced if another has taken over."""
        with self._guard:
            if self._is_lost:
                raise Fenced(f"store {self.place}: another collector has taken over")
            if self._claim is None:
                self._take()
            assert self._claim is not None
            return self._state, self._claim.epoch

    def lost(self) -> bool:
        return self._is_lost

    def commit(self, entry: Entry) -> State:
        """Put one more commit into the journal; Fenced if another has taken over."""
        with self._guard:
            self.held()
            self._check_turn()
            assert self._claim is not None
            assert self._journal is not None
            # An append whose answer was lost may be there: then it is part of what is the case.
            self._state = self._journal.caught_up(self._state)
            if entry.app and self._state.apps.get(entry.app, -1) >= entry.number:
                return self._state
            self._state = self._journal.append(self._state, self._claim.epoch, entry)
            return self._state

    def begun(self, app: str, number: int, now_us: int) -> tuple[int, bool]:
        """When a batch was begun first, and whether it was before: what it refuses has that time
        in every replay."""
        rows = self.influx.tell(
            f"SELECT said FROM {place_of('begun')} WHERE app = $app", {"app": tag_text(app)}
        )
        if rows:
            said = json.loads(rows[0]["said"])
            if said["number"] == number:
                return int(said["at"]), True
        said = text_field(json.dumps({"number": number, "at": now_us}))
        self.influx.write(OWN, f"{series_key('begun', {'app': app})} said={said} 0\n".encode())
        return now_us, False

    def release(self) -> None:
        """Let others write; safe to call twice."""
        self._released.set()
        if self._beating is not None:
            self._beating.join()
        with self._guard:
            claim, self._claim = self._claim, None
            if claim is not None and not self._is_lost:
                with suppress(StoreError):
                    if self._current() == claim:
                        self._put(replace(claim, id="", owner="", pid=0))
            self.influx.close()

    def _take(self) -> None:
        version, _ = version_of(self.influx)
        check(self.place, version)
        if not version:
            make(self.influx)
        check_policies(self.influx)
        last = self._current()
        is_free = last is None or last.id in ("", self._id)  # or was claimed by an earlier try
        if last is not None and not is_free and not self._is_gone(last):
            raise _Taken(self.place, last.owner or "another collector")
        mine = Claim(
            1 if last is None else last.epoch + 1,
            self._owner,
            self._id,
            _host(),
            os.getpid(),
            _started(os.getpid()),
        )
        self._put(mine)
        self._sleep(SETTLE_S)  # of two that claim at once, the last one's claim stands
        if self._current() != mine:
            raise _Taken(self.place, "another collector")
        self._claim = mine
        self._journal = Journal(self.influx, version_of(self.influx)[1])
        self._state = self._journal.caught_up(State())
        self._beating = threading.Thread(target=self._beat, name="influx-turn", daemon=True)
        self._beating.start()

    def _is_gone(self, holder: Claim) -> bool:
        """Whether a writer is there no more: its process is not, or its beat stands still."""
        if holder.host == _host() and _started(holder.pid) != holder.started:
            return True
        now = self._clock()
        if self._seen is None or self._seen[0] != holder:
            self._seen = holder, now
        return now - self._seen[1] >= SILENT_S

    def _beat(self) -> None:
        while not self._released.wait(BEAT_S) and not self._is_lost:
            with suppress(StoreError), self._guard:  # a commit will say what is wrong
                if self._claim is None:
                    return
                self._check_turn()
                self._claim = replace(self._claim, beat=self._claim.beat + 1)
                self._put(self._claim)

    def _check_turn(self) -> None:
        current = self._current()
        assert self._claim is not None
        if current is None or (current.id, current.epoch) != (self._claim.id, self._claim.epoch):
            self._is_lost = True
            by = current.owner if current is not None else "nobody"
            raise Fenced(f"store {self.place}: {by or 'nobody'} has taken over")

    def _current(self) -> Claim | None:
        rows = self.influx.tell(f"SELECT said FROM {place_of('writer')}")
        return Claim(**json.loads(rows[0]["said"])) if rows else None

    def _put(self, claim: Claim) -> None:
        said = text_field(json.dumps(asdict(claim)))
        self.influx.write(OWN, f"writer said={said} 0\n".encode())


class _Taken(StoreOut):
    """Raised when another has the turn."""

    def __init__(self, place: InfluxUrl, by: str) -> None:
        super().__init__(f"store {place}: {by} writes to it")
        self.by = by


def _host() -> str:
    """This machine, as far as its process numbers mean the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return secrets.token_hex(8)  # nobody else's: only silence tells then


def _started(pid: int) -> str:
    """When a process began, in the system's own count; "" if there is none."""
    try:
        state, *said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else said[18]
