"""Compares a history with what was read back, and names every broken promise.

It trusts nothing but what was acknowledged and what was read. A run with too few acknowledgements
does not pass, whatever else it shows: zero lost of twelve proves nothing.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from support.history import UNKNOWN, Entry, History, Outcome, Read, Reads, operation_key

EXAMPLES_MAX = 10


class Defect(StrEnum):
    """The ways in which a log can break its promise, or a history be no evidence."""

    LOST = "lost"  # acknowledged, not read back
    DUPLICATED = "duplicated"  # one operation, read at two places
    OUT_OF_ORDER = "out of order"  # a producer's later operation before its earlier one
    DIVERGENT = "divergent"  # acknowledged at one place, read at another; or two at one place
    PHANTOM = "phantom"  # read, but never invoked, or failed for certain
    MALFORMED = "malformed"  # the history contradicts itself: the test is wrong, not the log


@dataclass(slots=True)
class Report:
    """What a run showed. `passed` is the verdict, `str()` the evidence."""

    min_acked: int
    min_ack_rate: float
    invoked: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    seconds: float = 0.0
    counts: Counter[Defect] = field(default_factory=Counter)
    examples: dict[Defect, list[str]] = field(default_factory=dict)

    @property
    def ack_rate(self) -> float:
        """The part of the operations that was acknowledged."""
        return self.acked / self.invoked if self.invoked else 0.0

    @property
    def acks_per_second(self) -> float:
        return self.acked / self.seconds if self.seconds else 0.0

    @property
    def enough(self) -> bool:
        return self.acked >= self.min_acked and self.ack_rate >= self.min_ack_rate

    @property
    def passed(self) -> bool:
        return self.enough and not self.counts.total()

    def found(self, defect: Defect, example: str) -> None:
        self.counts[defect] += 1
        shown = self.examples.setdefault(defect, [])
        if len(shown) < EXAMPLES_MAX:
            shown.append(example)

    def __str__(self) -> str:
        defects = ", ".join(f"{self.counts[defect]:,} {defect}" for defect in Defect)
        lines = [
            f"{self.acked:,} acknowledged of {self.invoked:,} ({self.ack_rate:.1%}, "
            f"{self.acks_per_second:,.0f}/s), {self.failed:,} failed, {self.unknown:,} unknown, "
            f"{self.read:,} read: {defects}"
        ]
        if not self.enough:
            lines.append(
                f"too few acknowledged to prove anything: "
                f"{self.min_acked:,} and {self.min_ack_rate:.1%} are needed"
            )
        for defect, examples in self.examples.items():
            lines += (f"{defect}: {example}" for example in examples)
        return "\n".join(lines)

    def assert_passed(self) -> None:
        """Fail the test with the evidence, unless the run passed."""
        assert self.passed, str(self)


def check(history: History, reads: Reads, *, min_acked: int, min_ack_rate: float = 0.0) -> Report:
    """Judge a run whose consumers read every partition to its end."""
    report = Report(min_acked, min_ack_rate)
    operations = _Operations(report)
    for entry in history:
        operations.take(entry)
    report.seconds = history.span_us / 1e6
    operations.count()
    _take_reads(operations, reads, report)
    operations.judge()
    return report


class _Operations:
    """Each operation once: its outcome, the place it was given, and where it was seen."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._rows: dict[int, int] = {}
        self._processes = array("i")
        self._sequences = array("q")
        self._outcomes = array("b")
        self._partitions = array("i")
        self._offsets = array("q")
        self._reads = array("i")
        self._seen_as_acked = array("b")

    # From the history.

    def take(self, entry: Entry) -> None:
        row = self._rows.get(operation_key(entry.process, entry.sequence))
        if row is None and entry.outcome is Outcome.INVOKE:
            self._invoke(entry)
        elif row is None:
            name = _name(entry.process, entry.sequence)
            self.report.found(Defect.MALFORMED, f"{name} ended before it was invoked")
        elif entry.outcome is Outcome.INVOKE:
            self.report.found(Defect.MALFORMED, f"{self._name(row)} was invoked twice")
        else:
            self._end(row, entry)

    def _invoke(self, entry: Entry) -> None:
        self._rows[operation_key(entry.process, entry.sequence)] = len(self._outcomes)
        self._processes.append(entry.process)
        self._sequences.append(entry.sequence)
        self._outcomes.append(Outcome.INVOKE)
        self._partitions.append(entry.partition)
        self._offsets.append(UNKNOWN)
        self._reads.append(0)
        self._seen_as_acked.append(0)

    def _end(self, row: int, entry: Entry) -> None:
        before = self._outcomes[row]
        if before == Outcome.OK and entry.outcome is Outcome.OK:
            self._acknowledge_again(row, entry)
        elif {before, entry.outcome} == {Outcome.OK, Outcome.FAIL}:
            name = self._name(row)
            self.report.found(Defect.MALFORMED, f"{name} was acknowledged and failed")
        elif entry.outcome is Outcome.OK:
            self._acknowledge(row, entry)
        elif before in (Outcome.INVOKE, Outcome.INFO):
            # What became certain later stays: a timeout may be followed by the answer.
            self._outcomes[row] = entry.outcome

    def _acknowledge(self, row: int, entry: Entry) -> None:
        asked = self._partitions[row]
        if asked not in (UNKNOWN, entry.partition):
            name = self._name(row)
            why = f"{name} was sent to partition {asked}, acknowledged on {entry.partition}"
            self.report.found(Defect.DIVERGENT, why)
        self._outcomes[row] = Outcome.OK
        self._partitions[row] = entry.partition
        self._offsets[row] = entry.offset

    def _acknowledge_again(self, row: int, entry: Entry) -> None:
        first = (self._partitions[row], self._offsets[row])
        if first != (entry.partition, entry.offset):
            why = f"acknowledged at {_place(*first)}, then at {_place(*entry[3:5])}"
            self.report.found(Defect.DIVERGENT, f"{self._name(row)} was {why}")

    def count(self) -> None:
        totals = Counter(self._outcomes)
        self.report.invoked = len(self._outcomes)
        self.report.acked = totals[Outcome.OK]
        self.report.failed = totals[Outcome.FAIL]
        # What never ended may have happened: the process that knew is gone.
        self.report.unknown = totals[Outcome.INFO] + totals[Outcome.INVOKE]

    # From the reads.

    def see(self, read: Read) -> bool:
        """Note where an operation was read; whether that is its first place."""
        row = self._rows.get(operation_key(read.process, read.sequence))
        if row is None or self._outcomes[row] == Outcome.FAIL:
            why = "never invoked" if row is None else "failed for certain"
            self.report.found(Defect.PHANTOM, f"{_describe(read)}, though {why}")
            return False
        self._reads[row] += 1
        if read.offset == self._offsets[row] and read.partition == self._partitions[row]:
            self._seen_as_acked[row] = 1
        if self._reads[row] == 2:
            self.report.found(Defect.DUPLICATED, f"{_describe(read)} again")
        return self._reads[row] == 1

    def _name(self, row: int) -> str:
        return _name(self._processes[row], self._sequences[row])

    def judge(self) -> None:
        for row, outcome in enumerate(self._outcomes):
            if outcome == Outcome.OK and not self._seen_as_acked[row]:
                self._judge_acked(row)

    def _judge_acked(self, row: int) -> None:
        where = _place(self._partitions[row], self._offsets[row])
        name = self._name(row)
        if not self._reads[row]:
            self.report.found(Defect.LOST, f"{name}, acknowledged at {where}, was not read")
        elif self._offsets[row] != UNKNOWN:
            why = f"{name}, acknowledged at {where}, was read elsewhere"
            self.report.found(Defect.DIVERGENT, why)


def _take_reads(operations: _Operations, reads: Reads, report: Report) -> None:
    """Walk the log in its order; a place that is read again has to show the same."""
    newest: dict[tuple[int, int], int] = {}
    last: Read | None = None
    for read in reads.in_log_order():
        again = last is not None and read[:2] == last[:2]
        if again and read == last:
            continue
        if again:
            at = _place(read.partition, read.offset)
            report.found(Defect.DIVERGENT, f"two operations were read at {at}")
        last = read
        report.read += 1
        if operations.see(read):
            _check_order(newest, read, report)


def _check_order(newest: dict[tuple[int, int], int], read: Read, report: Report) -> None:
    producer = (read.partition, read.process)
    before = newest.get(producer, UNKNOWN)
    if read.sequence < before:
        report.found(Defect.OUT_OF_ORDER, f"{_describe(read)}, after {before}")
    newest[producer] = max(before, read.sequence)


def _name(process: int, sequence: int) -> str:
    return f"operation {sequence} of process {process}"


def _describe(read: Read) -> str:
    at = _place(read.partition, read.offset)
    return f"{_name(read.process, read.sequence)} was read at {at}"


def _place(partition: int, offset: int) -> str:
    return f"{partition}@{offset}"
