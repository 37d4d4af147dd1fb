"""Telemetry in a queue in etcd, put there by hand: keys as the layout says, and the bell rung."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from nexus.etcd import Get, KeyValue, Operation, Put
from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.counts import Count, Tally, Totals, totals
from nexus.queue.etcd.forms import pack
from nexus.queue.etcd.layout import PACKED, Layout, Slot, readings_in
from nexus.queue.port import Message
from support.etcd import EtcdMember
from support.published import Sent

_TOGETHER = 100  # keys in a transaction


class HandQueue:
    """One queue; `close` it. Messages go where they are told to, in order."""

    def __init__(self, member: EtcdMember, prefix: str) -> None:
        self.url = f"etcd://{member.endpoint}{prefix}"
        self.layout = Layout(prefix)
        self.etcd = BlockingClient(member.config())
        self._slots: set[Slot] = set()
        self._numbers: Iterator[int] = count()
        self._bell = Tally(self.layout.meta("bells", "by-hand", "0"), "by-hand")

    def __enter__(self) -> HandQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.etcd.close()

    def put(
        self,
        slot: Slot,
        messages: Sequence[Sent],
        *,
        packed: bool = False,
        lease: int = 0,
        at_ns: int = 0,
    ) -> list[KeyValue]:
        """Publish messages, one a key or all in one value; the keys as they are now."""
        self._register(slot)
        now_ns = at_ns or time.time_ns()
        if packed or any(_kind(message) != b"application/json" for message in messages):
            readings = sum(_count(message) for message in messages)
            value = pack([_message(each) for each in messages], now_ns // 1_000_000)
            values = [(f"{PACKED}{readings}", value)]
        else:
            values = [("0", value or b"") for value, _ in messages]
        puts = [
            Put(self.layout.message(slot, now_ns, "host", gpu, next(self._numbers)), value, lease)
            for gpu, value in values
        ]
        parts = [puts[at : at + _TOGETHER] for at in range(0, len(puts), _TOGETHER)]
        return [
            KeyValue(put.key, put.value, revision, revision, 1, lease)
            for part in parts
            for revision in [self._ring(part)]
            for put in part
        ]

    def put_raw(self, key: bytes, value: bytes) -> None:
        """As another program would: no slot is registered and no bell rung."""
        self.etcd.put(key, value)

    def waiting(self) -> list[KeyValue]:
        """All messages that are there, less their values."""
        pages = self.etcd.scan(Get(self.layout.messages, keys_only=True))
        return [item for page in pages for item in page.items]

    def totals(self) -> Totals:
        return self.etcd.run(lambda client: totals(client, self.layout))

    def _register(self, slot: Slot) -> None:
        if slot not in self._slots:
            self.etcd.put(self.layout.meta("slots", str(slot)), b"")
            self._slots.add(slot)

    def _ring(self, puts: Sequence[Put]) -> int:
        added = Count(len(puts), sum(readings_in(put.key) for put in puts))
        step = self._bell.step(added, time.time_ns() // 1_000_000)
        then: list[Operation] = [step.put, *puts]
        done = self.etcd.txn(when=[step.when], then=then)
        assert done.succeeded
        self._bell.done(step, done.revision)
        return done.revision


def _message(sent: Sent) -> Message:
    value, headers = sent
    return Message(value or b"", headers=tuple((n, _bytes(v)) for n, v in headers))


def _kind(sent: Sent) -> bytes:
    return _bytes(dict(sent[1]).get("content-type"))


def _count(sent: Sent) -> int:
    return int(_bytes(dict(sent[1]).get("count")) or b"1")


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""
