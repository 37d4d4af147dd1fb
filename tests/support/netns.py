"""Hosts of a test's own: network namespaces joined by a router that can lose packets silently.

Every host has one address, and nothing of it is seen outside. A process belongs to the host in
which it was started; the test itself may step inside one. It needs root and `ip`; without them a
test that asks for it is skipped (under CI=true it fails).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self

from support.needs import missing, need_program, need_root

NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_networks = count(1)


class Network:
    """Hosts by name, all of which reach each other until they are cut."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._prefix = f"nexus-{os.getpid()}-{next(_networks)}-"
        self.hosts = {name: f"10.77.{number}.2" for number, name in enumerate(hosts, 1)}
        self._cuts: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        need_root()
        self._ip = need_program("ip")
        try:
            self._make()
        except (subprocess.CalledProcessError, OSError) as error:
            self._remove()
            why = (
                error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
            )
            missing(f"network namespaces cannot be made: {why}")
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def cut(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Lose what the sources send to the targets, and not what they are sent."""
        targets = list(targets)
        new = {(a, b) for a in sources for b in targets if a != b} - self._cuts
        self._rules("add", new)
        self._cuts |= new

    def part(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Lose everything between them, both ways."""
        some, others = list(some), list(others)
        self.cut(some, others)
        self.cut(others, some)

    def heal(self) -> None:
        """Lose nothing any more."""
        self._rules("del", self._cuts)
        self._cuts.clear()

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread is on that host, and so is whatever it starts, until the block ends."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(NAMESPACES / (self._prefix + host), os.O_RDONLY)
            try:
                _enter(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                _enter(before)
        finally:
            os.close(before)

    def _sweep(self) -> None:
        """Remove what tests left that were killed themselves."""
        for place in NAMESPACES.glob("nexus-*-*-*"):
            owner = place.name.split("-")[1]
            if not Path("/proc", owner).exists():
                self._delete(place.name)

    def _make(self) -> None:
        self._sweep()
        router = self._prefix + "router"
        for name in ("router", *self.hosts):
            self._run("netns", "add", self._prefix + name)
        with self.inside("router"):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for name, address in self.hosts.items():
            host, gateway = self._prefix + name, address.removesuffix("2") + "1"
            ends = ("link", "add", "name", name, "netns", router, "type", "veth")
            self._run(*ends, "peer", "name", "eth0", "netns", host)
            self._batch(router, f"address add {gateway}/30 dev {name}", f"link set dev {name} up")
            self._batch(
                host,
                "link set lo up",
                f"address add {address}/30 dev eth0",
                "link set eth0 up",
                f"route add default via {gateway}",
            )

    def _remove(self) -> None:
        for name in ("router", *self.hosts):
            self._delete(self._prefix + name)

    def _delete(self, namespace: str) -> None:
        """Delete it if it is there; another test may do the same."""
        words = [self._ip, "netns", "delete", namespace]
        subprocess.run(words, capture_output=True, check=False)

    def _rules(self, verb: str, pairs: Iterable[tuple[str, str]]) -> None:
        self._batch(
            self._prefix + "router",
            *(f"rule {verb} from {self.hosts[a]} to {self.hosts[b]} blackhole" for a, b in pairs),
        )

    def _run(self, *words: str) -> None:
        subprocess.run([self._ip, *words], capture_output=True, text=True, check=True)

    def _batch(self, namespace: str, *lines: str) -> None:
        words = [self._ip, "-netns", namespace, "-batch", "-"]
        text = "\n".join(lines) + "\n"
        subprocess.run(words, input=text, capture_output=True, text=True, check=True)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "this thread cannot go to another network namespace")
