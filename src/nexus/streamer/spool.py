"""A bounded queue on disk for what the real queue cannot take now: frames in segment files.

Offsets count bytes since the spool was first used and never run back. What `append` returns from
is on disk with fsync; a torn tail, left by a crash, is cut off when the spool is opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nexus.queue.port import Message
from nexus.streamer.errors import SpoolFull
from nexus.streamer.files import sync_directory
from nexus.telemetry.frame import Frame, pack_frame, read_frames

SEGMENT_BYTES: Final = 16 << 20
_SUFFIX: Final = ".spool"
# Ours, for a frame of the spool only: where the message was to go.
_PARTITION: Final = "spool-partition"
_DEAD: Final = "spool-dead-letter"


class Spool:
    """First in, first out; `head` is the oldest byte still wanted, `tail` the next one to write."""

    def __init__(self, directory: Path, bound_bytes: int, segment_bytes: int = SEGMENT_BYTES):
        self._directory, self._bound, self._segment_bytes = directory, bound_bytes, segment_bytes
        self._starts: list[int] = []
        self.head = self.tail = 0
        self.damaged_bytes = 0  # what could not be read back

    def open(self, head: int) -> None:
        """Take up what an earlier run left; everything before `head` is done with."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._starts = sorted(int(p.stem) for p in self._directory.glob(f"*{_SUFFIX}"))
        self.tail = self._cut_torn_tail() if self._starts else head
        self.head = min(max(head, self._starts[0] if self._starts else head), self.tail)
        self.release(self.head)

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self.tail - self.head

    def has_room(self, size: int) -> bool:
        """Whether so many bytes may come in; an empty spool takes one parcel of any size."""
        return not self.size or self.size + size <= self._bound

    def append(self, messages: Sequence[Message]) -> int:
        """Store messages for good; the offset behind them. SpoolFull when the disk refuses."""
        data = b"".join([_packed(message) for message in messages])
        start = self._segment_for(len(data))
        path = self._path(start)
        is_new = not path.exists()
        try:
            with path.open("ab") as file:
                file.truncate(self.tail - start)  # what a failed append may have left
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_directory(self._directory)
        except OSError as error:
            raise SpoolFull(f"{path}: {error.strerror or error}") from error
        self.tail += len(data)
        return self.tail

    def read(self, offset: int, size: int) -> tuple[list[Message], int]:
        """About `size` bytes of messages from an offset on, and the offset behind them."""
        if offset >= self.tail:
            return [], offset
        start = max(s for s in self._starts if s <= offset)
        end = min((s for s in self._starts if s > offset), default=self.tail)
        messages, behind = self._read(start, offset - start, size)
        if not messages:
            # The disk has changed what it was given. Frames after a damaged one cannot be found.
            self.damaged_bytes += end - offset
            return [], end
        return messages, start + behind

    def _read(self, start: int, position: int, size: int) -> tuple[list[Message], int]:
        messages: list[Message] = []
        behind = position
        with self._path(start).open("rb") as file:
            file.seek(position)
            for behind, frame in read_frames(file):
                messages.append(_message(frame))
                if behind - position >= size:
                    break
        return messages, behind

    def release(self, offset: int) -> None:
        """Everything before an offset is in the queue: forget it.

        The newest segment stays, for another thread may just be appending to it.
        """
        self.head = max(self.head, offset)
        while len(self._starts) > 1 and self._starts[1] <= self.head:
            self._path(self._starts.pop(0)).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget everything, while nobody appends."""
        self.head = self.tail
        while self._starts:
            self._path(self._starts.pop()).unlink(missing_ok=True)

    def _segment_for(self, size: int) -> int:
        last = self._starts[-1] if self._starts else None
        if last is None or (self.tail > last and self.tail + size - last > self._segment_bytes):
            self._starts.append(self.tail)
        return self._starts[-1]

    def _cut_torn_tail(self) -> int:
        start = self._starts[-1]
        path = self._path(start)
        whole = 0
        with path.open("rb") as file:
            for behind, _ in read_frames(file):
                whole = behind
        os.truncate(path, whole)
        return start + whole

    def _path(self, start: int) -> Path:
        return self._directory / f"{start:020d}{_SUFFIX}"


def _packed(message: Message) -> bytes:
    headers = list(message.headers)
    if message.partition is not None:
        headers.append((_PARTITION, message.partition.to_bytes(4, "big")))
    if message.dead:
        headers.append((_DEAD, b""))
    return pack_frame(Frame(message.value, message.key, tuple(headers), message.timestamp_ms))


def _message(frame: Frame) -> Message:
    partition, dead, kept = None, False, []
    for name, content in frame.headers:
        if name == _PARTITION:
            partition = int.from_bytes(content, "big")
        elif name == _DEAD:
            dead = True
        else:
            kept.append((name, content))
    return Message(frame.value, frame.key, tuple(kept), frame.timestamp_ms, partition, dead)


def readings_in(messages: Sequence[Message]) -> int:
    """How many readings messages carry, by their own word."""
    return sum([0 if m.dead else int(dict(m.headers).get("count", b"1")) for m in messages])
