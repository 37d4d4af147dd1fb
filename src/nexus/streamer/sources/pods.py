"""Which pod a process belongs to, by its cgroup: version 1 or 2, containerd, CRI-O or docker.

A cgroup's path has the pod's uid and the container's id. Their names come from the links that
the kubelet keeps in /var/log, where those can be read; without them the uid stands for the pod
and the short id for the container. A process outside any container is nobody's.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

CGROUP_BYTES_MAX: Final = 64 << 10
NAMES_MAX: Final = 100_000
RELIST_S: Final = 5.0  # an unknown container lists the directory again, but not more often

_HEX: Final = "[0-9a-f]"
# A uid in a systemd slice has _ for -; that of a static pod is a bare hash.
_POD: Final = re.compile(
    rf"pod({_HEX}{{8}}[-_]{_HEX}{{4}}[-_]{_HEX}{{4}}[-_]{_HEX}{{4}}[-_]{_HEX}{{12}}|{_HEX}{{32}})"
    r"(?=[./:]|$)",
    re.MULTILINE,
)
_CONTAINER: Final = re.compile(rf"(?:[/:-])({_HEX}{{64}})(?=\.scope|[/\s]|$)")
_LOG_NAME: Final = re.compile(rf"([^_]+)_([^_]+)_(.+)-({_HEX}{{64}})\.log")


class Owner(NamedTuple):
    """What a cgroup's path tells."""

    pod_uid: str
    container_id: str


class Holder(NamedTuple):
    """Who holds a GPU, as a reading's columns say it."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    pod_uid: str = ""


NOBODY: Final = Holder()


def owner_in(cgroup: str) -> Owner | None:
    """The pod and container in the text of a /proc/<pid>/cgroup; None if it has neither."""
    pods, containers = _POD.findall(cgroup), _CONTAINER.findall(cgroup)
    if not pods and not containers:
        return None
    # The innermost counts: a node that is itself a container has its own id in front.
    return Owner(pods[-1].replace("_", "-") if pods else "", containers[-1] if containers else "")


class PodFinder:
    """Finds the holders of processes on this host; remembers names, never processes."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        logs: Path = Path("/var/log"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._logs = logs
        self._clock = clock
        self._listed_at = float("-inf")
        self._by_container: dict[str, Holder] = {}
        self._by_pod: dict[str, Holder] = {}

    def holders(self, pids: Iterable[int]) -> list[Holder]:
        """The distinct holders of these processes, in order; those outside containers left out."""
        found = {self._holder(owner) for owner in map(self._owner, set(pids)) if owner}
        return sorted(found)

    def _owner(self, pid: int) -> Owner | None:
        try:
            with open(self._proc / str(pid) / "cgroup", encoding="utf-8", errors="replace") as file:
                return owner_in(file.read(CGROUP_BYTES_MAX))
        except OSError:  # it has ended meanwhile, or is not ours to see
            return None

    def _holder(self, owner: Owner) -> Holder:
        known = self._known(owner)
        if known is None and self._clock() - self._listed_at >= RELIST_S:
            self._list()
            known = self._known(owner)
        if known is None:
            known = Holder(pod=owner.pod_uid, pod_uid=owner.pod_uid)
        named = known.container or owner.container_id[:12]
        return known._replace(container=named, pod_uid=owner.pod_uid)

    def _known(self, owner: Owner) -> Holder | None:
        return self._by_container.get(owner.container_id) or self._by_pod.get(owner.pod_uid)

    def _list(self) -> None:
        """`containers/<pod>_<namespace>_<container>-<id>.log`, `pods/<namespace>_<pod>_<uid>`."""
        self._listed_at = self._clock()
        self._by_container, self._by_pod = {}, {}
        for name in _names(self._logs / "containers"):
            if match := _LOG_NAME.fullmatch(name):
                self._by_container[match[4]] = Holder(match[2], match[1], match[3])
        for name in _names(self._logs / "pods"):
            namespace, _, rest = name.partition("_")
            pod, _, uid = rest.rpartition("_")
            if namespace and pod and uid:
                self._by_pod[uid] = Holder(namespace, pod)


def _names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for _, entry in zip(range(NAMES_MAX), entries, strict=False)]
    except OSError:
        return []
