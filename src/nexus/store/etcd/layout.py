"""Where a store's things are in etcd: the names of keys.

    /telemetry/gpus/{uuid}                                  the index: who each GPU is, and where
    /telemetry/clusters/{cluster}/hosts/{host}/gpus/{uuid}/
        metadata                                            the same, for people
        latest                                              the last reading of each series
        data/{id}                                           one reading
    /telemetry/store.quarantine/{id}                        what was refused
    /telemetry/store.meta/…                                 the store's own

An id begins with 20 digits of microseconds, so that ids sort by time. That of a reading goes on
with its metric and a hash of its series, so that no two readings share one. A GPU that moved has
several *paths*, which its document in the index names; the same id under two of them is the same
reading, told twice, and what was stored first counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from nexus.etcd.keys import Keys

DEFAULT_PREFIX: Final = "/telemetry"
MOMENT_DIGITS: Final = 20
_UNSAFE: Final = re.compile(r"[/%\x00-\x1f\x7f]")
_NOTHING: Final = "%"  # no other name is encoded so


@dataclass(frozen=True)
class StoreLayout:
    """The keys of one store."""

    prefix: str = DEFAULT_PREFIX

    @cached_property
    def index(self) -> Keys:
        """The document of every GPU, and of every host that has readings of its own."""
        return Keys.prefix(self.gpu(""))

    def gpu(self, uuid: str) -> bytes:
        """A GPU's document; with the beginning of a uuid, where such documents begin."""
        return f"{self.prefix}/gpus/{path_name(uuid) if uuid else ''}".encode()

    @cached_property
    def clusters(self) -> Keys:
        """All that is kept by path: metadata, latest and data of every GPU."""
        return Keys.prefix(f"{self.prefix}/clusters/".encode())

    def path(self, cluster: str, host: str, uuid: str) -> str:
        """What the keys of a GPU on a host begin with, less the last slash."""
        names = (path_name(cluster), path_name(host), path_name(uuid))
        return self.prefix + "/clusters/{}/hosts/{}/gpus/{}".format(*names)

    def quarantine(self, low_us: int | None = None, high_us: int | None = None) -> Keys:
        """What was refused since `low_us` and before `high_us`."""
        return _between(f"{self.prefix}/store.quarantine/".encode(), low_us, high_us)

    def meta(self, *names: str) -> bytes:
        """A key of the store's own: `meta("batches", app)`."""
        return "/".join((f"{self.prefix}/store.meta", *map(path_name, names))).encode()

    def metas(self, *names: str) -> Keys:
        """All keys of the store's own below a name."""
        return Keys.prefix(self.meta(*names) + b"/")

    # Names below store.meta:
    #   writer         who writes to the store (an election; its creation is the fencing token)
    #   last-writer    who wrote last: whoever lost its lease may go on only if that is still it
    #   arrivals       when which revision was the newest, to tell how old a key is
    #   batches/{app}  the last batch of a stream that is stored, and the one that was begun


def metadata_key(path: str) -> bytes:
    """A GPU's document again, where people look for it."""
    return f"{path}/metadata".encode()


def latest_key(path: str) -> bytes:
    """The last reading of each series of a GPU on a host."""
    return f"{path}/latest".encode()


def data_keys(path: str, low_us: int | None = None, high_us: int | None = None) -> Keys:
    """The readings of a GPU on a host, since `low_us` and before `high_us`, in order of time."""
    return _between(f"{path}/data/".encode(), low_us, high_us)


def moment_us_of(key: bytes) -> int:
    """The time in the name of a reading or of what was refused."""
    return int(key.rpartition(b"/")[2][:MOMENT_DIGITS])


def path_name(text: str) -> str:
    """A name as one step of a path: what would be taken for structure is percent-encoded."""
    if not text:
        return _NOTHING
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _between(prefix: bytes, low_us: int | None, high_us: int | None) -> Keys:
    whole = Keys.prefix(prefix)
    start = whole.start if low_us is None else prefix + _moment(low_us)
    return Keys(start, whole.end if high_us is None else prefix + _moment(high_us))


def _moment(moment_us: int) -> bytes:
    most = 10**MOMENT_DIGITS - 1
    return f"{min(max(moment_us, 0), most):0{MOMENT_DIGITS}d}".encode()
