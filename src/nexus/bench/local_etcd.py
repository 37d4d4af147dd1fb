"""An etcd that a measurement starts for itself, with the flags that `nexus up` gives it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from nexus.bench.clients import BenchFailed
from nexus.etcd import Client, EtcdConfig, EtcdError, Status
from nexus.etcd.blocking import BlockingClient
from nexus.up.etcd_server import etcd_command, etcd_environment, find_etcd
from nexus.up.ports import Address

_QUOTA_BYTES: Final = 4 << 30
_START_S: Final = 30.0


class LocalEtcd:
    """One member; started on construction, ended with the block. `flags` come last."""

    def __init__(self, directory: Path, *flags: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port, peer_port = _free_port(), _free_port()
        self.endpoint = f"127.0.0.1:{port}"
        program = find_etcd(os.environ.get("ETCD_BIN"))
        clients = Address("clients", "127.0.0.1", port, "")
        peers = Address("peers", "127.0.0.1", peer_port, "")
        command = etcd_command(program, directory / "data", clients, peers, _QUOTA_BYTES)
        with (directory / "etcd.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *flags], stdout=log, stderr=log, env=etcd_environment()
            )
        self._wait_ready(directory / "etcd.log")

    @property
    def config(self) -> EtcdConfig:
        return EtcdConfig((self.endpoint,))

    def queue(self, name: str, options: str = "") -> str:
        """The address of a queue in it."""
        return f"etcd://{self.endpoint}/{name}" + (f"?{options}" if options else "")

    def status(self) -> Status:
        with BlockingClient(self.config) as etcd:
            return etcd.run(_status)

    def memory_bytes(self) -> int:
        """What the process has in memory, less the pages of its files, which it maps."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        found = next(line for line in lines if line.startswith("RssAnon:"))
        return int(found.split()[1]) * 1024

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def __enter__(self) -> LocalEtcd:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_ready(self, log: Path) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.status()
                return
            except EtcdError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    said = log.read_text(errors="replace")[-500:]
                    raise BenchFailed(f"etcd did not start: {said}") from None
                time.sleep(0.05)


async def _status(client: Client) -> Status:
    return await client.maintenance.status()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
