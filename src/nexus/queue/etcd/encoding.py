"""From messages to keys and values: one key for each JSON message, or many messages in a value.

Keys of one encoder rise, so a slot's messages keep their order whatever the clock does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from nexus.queue.etcd.forms import pack
from nexus.queue.etcd.layout import PACKED, Layout, Slot, safe
from nexus.queue.port import Headers, Message
from nexus.telemetry.content import JSON_TYPE

VALUE_READINGS: Final = 1000
VALUE_BYTES: Final = 248 << 10
_FRAME_BYTES: Final = 128  # a frame's own bytes, its headers' included, about
_PUT_BYTES: Final = 48  # a put's own bytes in a transaction, and some to spare
_SEQUENCES: Final = 10**10
_NAMES_MAX: Final = 100_000
_HOST: Final = re.compile(rb'"hostname":\s*"([^"\\]{1,200})"')
_GPU: Final = re.compile(rb'"gpu_id":\s*"?([^"\\,}]{1,200})')


class Unit(NamedTuple):
    """One key to put. `settles` is how many messages are in it, `readings` what its name says."""

    key: bytes
    value: bytes
    size: int  # in a transaction
    settles: int
    readings: int
    dead: bool = False


class Encoder:
    """Makes units for one publisher; `host` is the name that packed keys bear."""

    def __init__(
        self,
        layout: Layout,
        cluster: str,
        host: str,
        *,
        packs_all: bool,
        sequence: int,
        clock_ns: Callable[[], int],
        value_bytes: int = VALUE_BYTES,
    ) -> None:
        self._layout, self._cluster, self._packs_all = layout, cluster, packs_all
        self._host, self._value_bytes = safe(host), value_bytes
        self._sequence = sequence % _SEQUENCES
        self._clock_ns, self._last_ns = clock_ns, 0
        self._names: dict[tuple[bytes, bytes], bytes] = {}

    def units(self, partition: int, messages: Sequence[Message]) -> list[Unit]:
        """Messages of one partition, in order."""
        slot = Slot(self._cluster, partition)
        path = self._layout.slot(slot).start
        self._last_ns = max(self._last_ns, self._clock_ns())
        made: list[Unit] = []
        for together, is_single in _runs(messages, self._packs_all):
            if is_single:
                made += [self._single(path, message) for message in together]
            else:
                groups = _groups(together, self._value_bytes)
                made += [self._packed(path, group, readings) for group, readings in groups]
        return made

    def dead_units(self, messages: Sequence[Message]) -> list[Unit]:
        """The same for the dead letters; what headers say of them is kept."""
        path = self._layout.slot(Slot(self._cluster, 0)).start
        self._last_ns = max(self._last_ns, self._clock_ns())
        made = [self._packed(path, [message], 1) for message in messages]
        return [unit._replace(key=self._layout.dead_letter(unit.key), dead=True) for unit in made]

    def _single(self, path: bytes, message: Message) -> Unit:
        value = message.value
        key = self._key(path, self._name(value))
        return Unit(key, value, len(key) + len(value) + _PUT_BYTES, 1, 1)

    def _packed(self, path: bytes, messages: Sequence[Message], readings: int) -> Unit:
        name = f"_{self._host}_{PACKED}{readings}_".encode()
        value = pack(messages, self._last_ns // 1_000_000)
        key = self._key(path, name)
        return Unit(key, value, len(key) + len(value) + _PUT_BYTES, len(messages), readings)

    def _key(self, path: bytes, name: bytes) -> bytes:
        self._last_ns += 1
        self._sequence = (self._sequence + 1) % _SEQUENCES
        return b"%b%019d%b%010d" % (path, self._last_ns, name, self._sequence)

    def _name(self, value: bytes) -> bytes:
        """The host and the GPU that a reading in JSON names, as the middle of a key."""
        host, gpu = _HOST.search(value), _GPU.search(value)
        about = (host[1] if host else b"", gpu[1] if gpu else b"")
        known = self._names.get(about)
        if known is None:
            if len(self._names) >= _NAMES_MAX:
                self._names.clear()
            words = [safe(word.decode("utf-8", "replace")) for word in about]
            known = self._names[about] = "_{}_{}_".format(*words).encode()
        return known


def _runs(messages: Sequence[Message], packs_all: bool) -> Iterator[tuple[Sequence[Message], bool]]:
    """Neighbours that have the same form, and whether that is one key for each."""
    if packs_all or not messages:
        yield messages, not messages
        return
    start, last, was_json, was_single = 0, None, False, False
    for number, message in enumerate(messages):
        if message.headers is not last:
            last, was_json = message.headers, _is_json(message.headers)
        is_single = was_json and message.value[:1] not in (b"", b"\x00")
        if number and is_single != was_single:
            yield messages[start:number], was_single
            start = number
        was_single = is_single
    yield messages[start:], was_single


def _groups(
    messages: Sequence[Message], value_bytes: int
) -> Iterator[tuple[Sequence[Message], int]]:
    """Neighbours that go into one value, and how many readings they hold."""
    start = size = readings = readings_more = 0
    last: Headers | None = None
    for number, message in enumerate(messages):
        if message[2] is not last:
            last, readings_more = message[2], readings_of(message)
        bytes_more = len(message[0]) + _FRAME_BYTES
        is_full = size + bytes_more > value_bytes or readings + readings_more > VALUE_READINGS
        if number > start and is_full:
            yield messages[start:number], readings
            start, size, readings = number, 0, 0
        size += bytes_more
        readings += readings_more
    yield messages[start:], readings


def readings_of(message: Message) -> int:
    """How many readings a message holds, by its own word."""
    for name, value in message.headers:
        if name == "count":
            return max(1, int(value)) if value.isdigit() else 1
    return 1


def _is_json(headers: Headers) -> bool:
    for name, value in headers:
        if name == "content-type":
            return value.partition(b";")[0].strip().lower() == JSON_TYPE.encode()
    return True
