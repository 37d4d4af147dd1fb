"""An etcd of our own: one member on loopback, with what a queue in it needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nexus.up.errors import NoEtcd
from nexus.up.ports import Address

_NAME: Final = "nexus"
_FLAGS: Final = (
    *("--logger", "zap", "--log-level", "warn"),
    # Larger transactions and values than by default: fewer, so faster, batches.
    *("--max-txn-ops", "1024", "--max-request-bytes", str(4 << 20)),
    # By default it keeps 100,000 entries of its log in memory.
    *("--snapshot-count", "5000"),
    # What was deleted goes soon: a queue deletes all that it was given.
    *("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1m"),
    "--pre-vote",
)
# etcd takes every ETCD_… for a flag of its own, and refuses to start where one contradicts a flag.
_ITS_VARIABLES: Final = "ETCD_"
_ITS_NEEDED: Final = "ETCD_UNSUPPORTED_ARCH"


def find_etcd(told: str | None) -> str:
    """The program to start: the one that we were told (ETCD_BIN), else the PATH's; or NoEtcd."""
    found = shutil.which(told or "etcd")
    if found is not None:
        return str(Path(found).absolute())
    if told:
        raise NoEtcd(f"{told} is no program: set ETCD_BIN to etcd's path, or unset it")
    raise NoEtcd(
        "there is no etcd on this machine: install it (make setup-etcd, or apt-get install"
        " etcd-server), set ETCD_BIN to its path, or name one that runs: --queue etcd://host:2379"
    )


def etcd_command(
    program: str, data_dir: Path, clients: Address, peers: Address, quota_bytes: int
) -> tuple[str, ...]:
    """Its command line; both ports are known."""
    client_url, peer_url = f"http://{clients.listen}", f"http://{peers.listen}"
    return (
        *(program, "--name", _NAME, "--data-dir", str(data_dir.absolute())),
        *("--listen-client-urls", client_url, "--advertise-client-urls", client_url),
        *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
        *("--initial-cluster", f"{_NAME}={peer_url}"),
        *("--quota-backend-bytes", str(quota_bytes)),
        *_FLAGS,
    )


def etcd_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without what etcd would take for orders."""
    variables = os.environ if environ is None else environ
    return {
        name: value
        for name, value in variables.items()
        if not name.startswith(_ITS_VARIABLES) or name == _ITS_NEEDED
    }
