"""Whether ports are free, before anything is started; and who has one that is not."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nexus.up.errors import PortTaken, UpError

_LISTENING: Final = "0A"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a part listens; port 0 lets the system choose."""

    what: str
    host: str
    port: int
    flag: str
    instead: str = ""  # what else one can do where the port is taken

    @property
    def reachable(self) -> str:
        """`host:port` as a client on this machine writes it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def listen(self) -> str:
        """`host:port` as a part is told."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def alternative(self) -> str:
        """More advice, to be said behind `flag`."""
        return f", or {self.instead}{self.reachable}" if self.instead else ""

    @property
    def url(self) -> str:
        return f"http://{self.reachable}"


def claimed(addresses: Sequence[Address]) -> list[Address]:
    """The same with every port known; PortTaken names the first that cannot be had."""
    _refuse_twins(addresses)
    with ExitStack() as held:  # all at once, so that no two get the same
        return [replace(a, port=_probe(a, held)) for a in addresses]


def is_free(host: str, port: int) -> bool:
    """Whether a part could listen there now."""
    try:
        with ExitStack() as held:
            _probe(Address("", host, port, ""), held)
    except PortTaken:
        return False
    return True


def holder_of_port(port: int) -> str:
    """Who listens on a port of this machine, as far as we may know: `process 12 (java)` or ""."""
    wanted = {f"socket:[{inode}]" for t in ("tcp", "tcp6") for inode in _listeners(t, port)}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        if not wanted.isdisjoint(_open_files(process)):
            with suppress(OSError):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return ""


def _open_files(process: Path) -> Iterator[str]:
    """What its descriptors stand for; they come and go while we look."""
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                yield str(link.readlink())


def _refuse_twins(addresses: Sequence[Address]) -> None:
    seen: dict[int, Address] = {}
    for address in addresses:
        twin = seen.get(address.port)
        if address.port and twin is not None:
            raise UpError(
                f"port {address.port} is given to {twin.what} ({twin.flag}) and to"
                f" {address.what} ({address.flag}): each needs its own"
            )
        seen[address.port] = address


def _probe(address: Address, held: ExitStack) -> int:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    probe = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
    # As servers do: connections of the last run that linger are no reason to refuse.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((address.host, address.port))
        return int(probe.getsockname()[1])
    except OSError as error:
        raise _refusal(address, error) from error


def _refusal(address: Address, error: OSError) -> PortTaken:
    if error.errno == errno.EADDRINUSE:
        who = holder_of_port(address.port)
        taken = f"is taken by {who}" if who else "is taken"
        return PortTaken(
            f"port {address.port}, for {address.what}, {taken};"
            f" free it, or choose another with {address.flag}{address.alternative}"
        )
    return PortTaken(
        f"{address.what} cannot listen on {address.listen}: {error.strerror or error};"
        f" choose another port with {address.flag}"
    )


def _listeners(table: str, port: int) -> list[str]:
    """The inodes of sockets that listen on a port."""
    try:
        lines = Path("/proc/net", table).read_text().splitlines()[1:]
    except OSError:
        return []
    rows = [line.split() for line in lines]
    wanted = f":{port:04X}"
    return [r[9] for r in rows if len(r) > 9 and r[3] == _LISTENING and r[1].endswith(wanted)]
