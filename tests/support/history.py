"""What producers did, and whether the log kept its promise: for crash and cluster tests.

A `History` holds every operation from its invocation to its outcome, `Reads` what a consumer got
back; `support.checker` compares them. Both are columns of numbers: a million entries are 33 MB.
"""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

UNKNOWN = -1


class Outcome(IntEnum):
    """What an entry says: an operation began, or how it ended."""

    INVOKE = 0
    OK = 1
    FAIL = 2  # for certain not written: refused before it was sent, or by a definite error
    INFO = 3  # nobody knows: a timeout, a lost connection


class Entry(NamedTuple):
    """One line of the history. An operation is named by its process and sequence."""

    outcome: Outcome
    process: int
    sequence: int
    partition: int
    offset: int
    at_us: int


class Read(NamedTuple):
    """One record as a consumer got it; its value says which operation wrote it."""

    partition: int
    offset: int
    process: int
    sequence: int


def operation_key(process: int, sequence: int) -> int:
    """One number for an operation: less than half of a pair's memory."""
    return process << 64 | sequence


def _microseconds() -> int:
    return time.monotonic_ns() // 1000


class History:
    """Operations in the order in which they were noted; any thread may note one."""

    def __init__(self, clock_us: Callable[[], int] = _microseconds) -> None:
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._outcomes = array("b")
        self._processes = array("i")
        self._sequences = array("q")
        self._partitions = array("i")
        self._offsets = array("q")
        self._times_us = array("q")

    def invoke(self, process: int, sequence: int, partition: int = UNKNOWN) -> None:
        """Note that an operation begins, before it can have any effect."""
        self._note(Outcome.INVOKE, process, sequence, partition, UNKNOWN)

    def ok(self, process: int, sequence: int, partition: int, offset: int = UNKNOWN) -> None:
        """Note an acknowledgement, with the place that it named."""
        self._note(Outcome.OK, process, sequence, partition, offset)

    def fail(self, process: int, sequence: int, partition: int = UNKNOWN) -> None:
        """Note that an operation had no effect, for certain. A timeout is not that."""
        self._note(Outcome.FAIL, process, sequence, partition, UNKNOWN)

    def info(self, process: int, sequence: int, partition: int = UNKNOWN) -> None:
        """Note that nobody knows whether an operation had an effect."""
        self._note(Outcome.INFO, process, sequence, partition, UNKNOWN)

    def _note(
        self, outcome: Outcome, process: int, sequence: int, partition: int, offset: int
    ) -> None:
        if process < 0 or sequence < 0:
            raise ValueError(f"operations are numbered from 0, not {process}, {sequence}")
        with self._lock:
            self._append(Entry(outcome, process, sequence, partition, offset, self._clock_us()))

    def _append(self, entry: Entry) -> None:
        self._outcomes.append(entry.outcome)
        self._processes.append(entry.process)
        self._sequences.append(entry.sequence)
        self._partitions.append(entry.partition)
        self._offsets.append(entry.offset)
        self._times_us.append(entry.at_us)

    def __len__(self) -> int:
        return len(self._times_us)

    @property
    def span_us(self) -> int:
        """From the first entry to the last."""
        return self._times_us[-1] - self._times_us[0] if self._times_us else 0

    def acked_at_us(self, partition: int) -> list[int]:
        """When each acknowledgement of a partition came, in order."""
        rows = zip(self._outcomes, self._partitions, self._times_us, strict=True)
        return [at for outcome, of, at in rows if outcome == Outcome.OK and of == partition]

    def __iter__(self) -> Iterator[Entry]:
        rows = zip(
            self._outcomes,
            self._processes,
            self._sequences,
            self._partitions,
            self._offsets,
            self._times_us,
            strict=True,
        )
        for outcome, *numbers in rows:
            yield Entry(_OUTCOMES[outcome], *numbers)

    def save(self, path: Path) -> None:
        """Write one JSON object a line."""
        with path.open("w", encoding="utf-8") as file:
            for entry in self:
                fields = entry._asdict() | {"outcome": entry.outcome.name.lower()}
                file.write(json.dumps(fields, separators=(",", ":")) + "\n")

    @classmethod
    def load(cls, path: Path) -> History:
        """Read what `save` wrote; a line that it cannot have written is a ValueError."""
        history = cls()
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    fields = json.loads(line)
                    fields["outcome"] = Outcome[fields["outcome"].upper()]
                    history._append(Entry(**fields))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise ValueError(f"{path}, line {number}: no entry ({error!r})") from error
        return history


_OUTCOMES = tuple(Outcome)


class Reads:
    """What consumers read back, in any order; the same place may be read more than once."""

    def __init__(self, reads: Iterable[Read | tuple[int, int, int, int]] = ()) -> None:
        self._partitions = array("i")
        self._offsets = array("q")
        self._processes = array("i")
        self._sequences = array("q")
        for read in reads:
            self.add(*read)

    def add(self, partition: int, offset: int, process: int, sequence: int) -> None:
        if min(partition, offset, process, sequence) < 0:
            raise ValueError(f"nothing can be read at {partition}@{offset} from {process}")
        self._partitions.append(partition)
        self._offsets.append(offset)
        self._processes.append(process)
        self._sequences.append(sequence)

    def __len__(self) -> int:
        return len(self._offsets)

    def in_log_order(self) -> Iterator[Read]:
        """By partition, then by offset; what was read alike at one place stands together."""

        def place(row: int) -> int:
            # One number instead of a tuple of four: a million of those would be 200 MB.
            where = self._partitions[row] << 64 | self._offsets[row]
            return where << 128 | operation_key(self._processes[row], self._sequences[row])

        for row in sorted(range(len(self)), key=place):
            yield Read(
                self._partitions[row],
                self._offsets[row],
                self._processes[row],
                self._sequences[row],
            )
