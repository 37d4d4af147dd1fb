"""etcd, as a queue of single keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nexus.up.etcd_server import etcd_command, etcd_environment, find_etcd
from nexus.up.ports import Address
from peers.servers.process import Durability, Program, Server, first_line, free_port, launch

_QUOTA_BYTES: Final = 8 << 30


@dataclass(frozen=True, slots=True)
class Etcd:
    """One member, with the flags that `nexus up` gives it."""

    title: str = "etcd (recipe)"
    client: str = "etcd"
    durability: Mapping[Durability, str] = field(
        default_factory=lambda: {
            Durability.FSYNC: "its default",
            Durability.NONE: "--unsafe-no-fsync",
        }
    )

    def missing(self) -> str | None:
        told = os.environ.get("ETCD_BIN", "etcd")
        return Program(told, "etcd-server").missing()

    def version(self) -> str:
        return first_line([self._program(), "--version"])

    def start(self, place: Path, durability: Durability) -> Server:
        port = free_port()
        clients = Address("clients", "127.0.0.1", port, "")
        peers = Address("peers", "127.0.0.1", free_port(), "")
        command = etcd_command(self._program(), place / "data", clients, peers, _QUOTA_BYTES)
        if durability == Durability.NONE:
            command = (*command, "--unsafe-no-fsync")
        return launch(command, place, port, etcd_environment())

    def _program(self) -> str:
        return find_etcd(os.environ.get("ETCD_BIN"))
