"""A PostgreSQL that a measurement or a test starts for itself, in a folder of its own.

The server refuses to run as root: then its programs run as the user that Debian's package made.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nexus.bench.clients import BenchFailed
from nexus.bench.ports import free_port

USER: Final = "nexus"
_START_S: Final = 60.0


class LocalPostgres:
    """One server on a free port, which it keeps over a restart; ended with the block."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._user = "postgres" if os.geteuid() == 0 else None
        self._settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            **(settings or {}),
        }

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", options: str = "") -> str:
        """The address of a store in one of its databases."""
        tail = f"?{options}" if options else ""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}{tail}"

    def __enter__(self) -> LocalPostgres:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", USER, "--no-sync")
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop("immediate")

    def start(self) -> None:
        log = self.folder / "log"
        self._run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", f"{_START_S:g}", "-l", str(log), "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """End it: `fast` breaks connections off, `immediate` is a crash. Safe to call twice."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [find_program(program), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            user=self._user,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            check=False,
        )
        if done.returncode:
            raise BenchFailed(f"{program}: {done.stderr.decode(errors='replace')[-500:]}")


def find_program(name: str) -> str:
    """A program of PostgreSQL, which Debian does not put on the path."""
    found = [
        shutil.which(name),
        *sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))),
    ]
    there = [path for path in found if path]
    if not there:
        raise BenchFailed(f"{name} was not found: apt install postgresql")
    return there[-1]
