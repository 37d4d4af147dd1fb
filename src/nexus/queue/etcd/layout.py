"""Where a queue's things are in etcd: the names of keys, made and read.

    /telemetry/queue/{cluster}/{partition}/{timestamp}_{host}_{gpu}_{sequence}   a message, or many
    /telemetry/queue.dlq/{cluster}/{partition}/…                                 dead letters
    /telemetry/queue.meta/…                                                      the queue's own

A timestamp is 19 digits of nanoseconds, so that keys sort by time; a sequence has ten digits. In
a key of packed frames the GPU's place says how many readings are inside: `packed-1000`. Everything
lies under one prefix of names, so that a user with rights on it can do all there is to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from nexus.etcd import Keys
from nexus.queue.etcd import DEFAULT_PREFIX

PACKED: Final = "packed-"
_TIMESTAMP_DIGITS: Final = 19
_SEQUENCE_DIGITS: Final = 10
_UNSAFE: Final = re.compile(r"[/_\x00-\x20\x7f]")
_UNSAFE_IN_PATH: Final = re.compile(r"[/\x00-\x20\x7f]")
_SLOT: Final = re.compile(rb"([^/]+)/(0|[1-9]\d{0,5})/")
_COUNT: Final = re.compile(rb"_packed-(\d{1,7})_\d+$")


class Slot(NamedTuple):
    """A partition of one cluster: what is read, owned and counted by itself."""

    cluster: str
    partition: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.partition}"


def slot_of(text: str) -> Slot:
    """The slot that `str` made this text of."""
    cluster, _, partition = text.rpartition("/")
    return Slot(cluster, int(partition))


@dataclass(frozen=True)
class Layout:
    """The keys of one queue."""

    prefix: str = DEFAULT_PREFIX

    @cached_property
    def messages(self) -> Keys:
        """Every message, also those that other programs put beside the slots."""
        return Keys.prefix(f"{self.prefix}/".encode())

    def slot(self, slot: Slot) -> Keys:
        """The messages of a slot, in the order of their keys: oldest first."""
        return Keys.prefix(self._slot_path(self.prefix, slot))

    def message(self, slot: Slot, timestamp_ns: int, host: str, gpu: str, sequence: int) -> bytes:
        """A message's key."""
        name = (
            f"{timestamp_ns:0{_TIMESTAMP_DIGITS}d}_{safe(host)}_{safe(gpu)}"
            f"_{sequence:0{_SEQUENCE_DIGITS}d}"
        )
        return self._slot_path(self.prefix, slot) + name.encode()

    def slot_of_key(self, key: bytes) -> Slot | None:
        """The slot that a message's key lies in; None for one that lies beside them."""
        found = _SLOT.match(key, len(self.prefix.encode()) + 1)
        try:
            return Slot(found[1].decode(), int(found[2])) if found else None
        except UnicodeDecodeError:
            return None

    @cached_property
    def dead_letters(self) -> Keys:
        return Keys.prefix(f"{self.prefix}.dlq/".encode())

    def dead_letter(self, key: bytes) -> bytes:
        """Where a message goes that nobody could work on."""
        return f"{self.prefix}.dlq".encode() + key[len(self.prefix.encode()) :]

    def meta(self, *names: str) -> bytes:
        """A key of the queue's own: `meta("slots", "local/3")`."""
        return "/".join((f"{self.prefix}.meta", *names)).encode()

    def metas(self, *names: str) -> Keys:
        """All keys of the queue's own below a name."""
        return Keys.prefix(self.meta(*names) + b"/")

    # Names below .meta:
    #   config                       how the queue was made: {"partitions": 12}
    #   id                           which queue it is, for whoever keeps a place in it
    #   slots/{cluster}/{partition}  every slot that ever had a message
    #   bells/{publisher}/{lane}     rung in each transaction that publishes; its value counts
    #   taken/{who}                  what was taken out in good order; its value counts too
    #   collectors/{span}            who leads the collectors of these partitions (election)
    #   led/{span}                   who led them last
    #   owners/{cluster}/{partition} which worker owns a slot (claims)
    #   present/{worker}             which workers there are; housekeeper: which one does chores
    #   claimed/…, failed/…, dead/…  what workers have in hand, what failed how often, and why

    @staticmethod
    def _slot_path(prefix: str, slot: Slot) -> bytes:
        return f"{prefix}/{slot.cluster}/{slot.partition}/".encode()


def cluster_name(text: str) -> str:
    """A cluster's name as the part of a path."""
    return _UNSAFE_IN_PATH.sub("-", text) or "-"


def safe(text: str) -> str:
    """A name as part of a key: what would be taken for structure becomes a dash."""
    return _UNSAFE.sub("-", text) or "-"


def timestamp_ns_of(key: bytes) -> int | None:
    """When a message was published, as its key says; None where it does not say."""
    name = key.rpartition(b"/")[2]
    digits = name[:_TIMESTAMP_DIGITS]
    well_formed = len(digits) == _TIMESTAMP_DIGITS and digits.isdigit()
    return int(digits) if well_formed and name[_TIMESTAMP_DIGITS:][:1] == b"_" else None


def readings_in(key: bytes) -> int:
    """How many readings a key's value holds, as the key says; one where it does not say."""
    found = _COUNT.search(key)
    return max(int(found[1]), 1) if found else 1
