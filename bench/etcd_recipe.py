"""The queue that etcd's own recipes describe: a message is a key, and its name is its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count

from nexus.etcd import Delete, Get, Keys, Put, mod_revision
from nexus.etcd.blocking import BlockingClient
from nexus.etcd.results import KeyValue

_numbers = count()


def message_key(prefix: bytes) -> bytes:
    """The place of a message that is put now; two of one moment differ by a number."""
    return prefix + b"%019d-%09d" % (time.time_ns(), next(_numbers))


def put_message(client: BlockingClient, prefix: bytes, value: bytes) -> None:
    """One message, one round trip."""
    client.put(message_key(prefix), value)


def take_message(
    client: BlockingClient,
    queue: Keys,
    also: Callable[[KeyValue], Sequence[Put]] = lambda _: (),
) -> bytes | None:
    """The first message, unless there is none or another was quicker; `also` in the same step."""
    first = client.range(Get(queue, limit=1)).first
    if first is None:
        return None
    done = client.txn(
        when=[mod_revision(first.key).equals(first.mod_revision)],
        then=[Delete(Keys(first.key)), *also(first)],
    )
    return first.value if done.succeeded else None
