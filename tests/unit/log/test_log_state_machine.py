"""A log against a plain list: whatever happens to it, it holds what the list says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from nexus.log import LogConfig, PartitionLog
from nexus.wire.compression import Codec
from nexus.wire.errors import OffsetOutOfRange
from nexus.wire.records import Record
from support.logs import (
    Clock,
    Producer,
    append,
    make_batch,
    next_offset_of,
    open_log,
    read_all,
    records_of,
)

KEYS = st.sampled_from([b"a", b"b", b"c", b"a key that is longer than the others"])
VALUES = st.one_of(st.none(), st.binary(max_size=120))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
FRACTION = st.floats(0, 1)


def small_config(*, compact: bool) -> LogConfig:
    return LogConfig(
        segment_bytes=1500,
        index_interval_bytes=200,
        retention_ms=60_000,
        retention_bytes=6000,
        compact=compact,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=50_000,
    )


class LogMachine(RuleBasedStateMachine):
    """Appends, crashes, deletions and all else in any order."""

    compact = False

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="log-machine"))
        self.clock = Clock()
        self.config = small_config(compact=self.compact)
        self.model: list[Record] = []
        self.boundaries = [0]
        self.start = 0
        self.recovery_point = 0
        self.sequences = {7: 0, 8: 0}
        self.log = self._open(clean=False)

    def _open(self, *, clean: bool) -> PartitionLog:
        return open_log(
            self.root / "p",
            self.config,
            recovery_point=self.recovery_point,
            clean=clean,
            clock=self.clock,
        )

    @rule(pairs=PAIRS, codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
    def append(self, pairs: list[tuple[bytes | None, bytes | None]], codec: Codec) -> None:
        batch = make_batch(pairs, at_ms=self.clock.now_ms, codec=codec)
        self._note(append(self.log, batch).base_offset, pairs)

    @rule(pairs=PAIRS, producer_id=st.sampled_from([7, 8]), again=st.booleans())
    def append_once(
        self, pairs: list[tuple[bytes | None, bytes | None]], producer_id: int, again: bool
    ) -> None:
        producer = Producer(producer_id, 0, self.sequences[producer_id])
        batch = make_batch(pairs, at_ms=self.clock.now_ms, producer=producer)
        done = append(self.log, batch)
        assert not done.duplicate
        self.sequences[producer_id] += len(pairs)
        self._note(done.base_offset, pairs)
        if again:
            second = append(self.log, make_batch(pairs, producer=producer))
            assert (second.base_offset, second.duplicate) == (done.base_offset, True)

    def _note(self, base: int, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
        assert base == self.boundaries[-1]
        time_ms = self.clock.now_ms
        self.model += [Record(base + n, time_ms, *pair) for n, pair in enumerate(pairs)]
        self.boundaries.append(base + len(pairs))

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        self.clock.now_ms += seconds * 1000

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.log.flushed_offset == self.log.end_offset

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.checkpoint()
        self.log.checkpointed()

    @rule(where=FRACTION, limit=FRACTION, max_bytes=st.integers(1, 3000))
    def read(self, where: float, limit: float, max_bytes: int) -> None:
        span = self.log.end_offset - self.start
        offset = self.start + int(where * span)
        upto = [one for one in self.boundaries if one <= self.start + int(limit * span)][-1:]
        piece = self.log.read(offset, max_bytes, upto[0] if upto else 0)
        if piece is None:
            left = [one for one in self.model if upto and offset <= one.offset < upto[0]]
            assert not left
            return
        data = piece.read()
        found = [one for one in records_of(data) if one.offset >= offset]
        next_offset = next_offset_of(data)
        assert found == [one for one in self.model if offset <= one.offset < next_offset]
        assert offset < next_offset <= upto[0]

    @rule(where=FRACTION)
    def seek_by_time(self, where: float) -> None:
        wanted = int(self.clock.now_ms - where * 100_000)
        expected = next(
            (one for one in self.model if one.timestamp >= wanted and one.offset >= self.start),
            None,
        )
        found = self.log.offset_for_time(wanted, self.log.end_offset)
        assert found == ((expected.offset, expected.timestamp) if expected else None)

    @rule()
    def close_and_open(self) -> None:
        end = self.log.end_offset
        self.log.close()
        self.recovery_point = end
        self.log = self._open(clean=True)
        assert self.log.end_offset == end

    @rule(data=st.data(), damage=st.sampled_from(["none", "lost", "cut", "zeroed"]))
    def crash(self, data: st.DataObject, damage: str) -> None:
        """The power fails: of what was not synced any part may be there."""
        flushed = self.log.flushed_offset
        for segment in self.log.segments:
            if segment.base_offset + 1 > flushed and segment is not self.log.segments[0]:
                safe = 0
            elif segment.base_offset <= flushed < self.log.end_offset:
                safe = segment.position_below(flushed)
            else:
                safe = segment.size
            size = data.draw(st.integers(safe, segment.size), label="bytes that survive")
            if safe < segment.size:
                with segment.path.open("r+b") as file:
                    file.truncate(size)
            if segment.base_offset >= self.recovery_point or segment is self.log.segments[-1]:
                for index in (segment.offsets.path, segment.times.path):
                    _damage(index, damage, data.draw(FRACTION, label="where"))
        self.log.abandon()
        self.log = self._open(clean=False)
        self._forget_after(self.log.end_offset)
        assert self.log.flushed_offset == self.log.end_offset >= flushed

    def _forget_after(self, end: int) -> None:
        assert end in self.boundaries
        lost = self.boundaries[self.boundaries.index(end) :]
        self.boundaries = self.boundaries[: self.boundaries.index(end) + 1]
        self.model = [one for one in self.model if one.offset < end]
        if len(lost) > 1:
            for producer_id in self.sequences:
                state = self.log.producers.get(producer_id)
                self.sequences[producer_id] = state.next_sequence if state else 0

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def retain(self) -> None:
        self.log.retain(self.clock.now_ms)
        self._follow_start()

    @rule(where=FRACTION)
    def delete_before(self, where: float) -> None:
        offset = self.start + int(where * (self.log.flushed_offset - self.start))
        assert self.log.delete_before(offset) == max(offset, self.start)
        self._follow_start()

    def _follow_start(self) -> None:
        assert self.log.start_offset >= self.start
        self.start = self.log.start_offset

    @rule(where=FRACTION)
    def truncate(self, where: float) -> None:
        first = max(self.start, self.log.segments[0].base_offset)
        choices = [one for one in self.boundaries if one >= first]
        if not choices:
            return
        offset = choices[int(where * (len(choices) - 1))]
        self.log.truncate_to(offset)
        assert self.log.end_offset == offset
        self._forget_after(offset)

    @precondition(lambda self: self.compact)
    @rule()
    def compact_log(self) -> None:
        result = self.log.compact(self.clock.now_ms)
        assert result.damage is None
        found = read_all(self.log)
        kept = {one.offset for one in found}
        latest = {one.key: one for one in self.model}
        for one in self.model:
            superseded = latest[one.key] is not one or one.value is None
            assert one.offset in kept or superseded or one.offset < self.start, one
        self.model = [one for one in self.model if one.offset in kept]
        self.boundaries = [
            one
            for one in self.boundaries
            if one >= result.cleaned_to or one >= self.log.segments[-1].base_offset
        ]

    @invariant()
    def holds_what_the_list_says(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.boundaries[-1])
        assert read_all(self.log) == [one for one in self.model if one.offset >= self.start]
        assert list(self.log.verify()) == []

    @invariant()
    def refuses_what_is_outside(self) -> None:
        if not hasattr(self, "log"):
            return
        for outside in (self.start - 1, self.log.end_offset + 1):
            try:
                self.log.read(outside, 100, self.log.end_offset)
            except OffsetOutOfRange:
                continue
            raise AssertionError(outside)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.root)


def _damage(path: Path, damage: str, where: float) -> None:
    if damage == "none" or not path.exists():
        return
    content = path.read_bytes()
    at = int(where * len(content))
    if damage == "lost":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[:at])
    else:
        path.write_bytes(content[:at] + bytes(len(content) - at))


class CompactedLogMachine(LogMachine):
    compact = True


_SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestLog = LogMachine.TestCase
TestLog.settings = _SETTINGS
TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = _SETTINGS
