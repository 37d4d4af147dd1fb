"""The systems that one command line starts: NATS JetStream, Redis Streams, Mosquitto."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from peers.servers.process import (
    Durability,
    Program,
    Server,
    find_program,
    first_line,
    free_port,
    launch,
)


@dataclass(frozen=True, slots=True)
class CommandSystem:
    """A server whose options are words and a file."""

    title: str
    client: str
    program: Program
    asks_version: tuple[str, ...]
    durability: Mapping[Durability, str]
    words: Callable[[Path, int, Durability], list[str]]

    def missing(self) -> str | None:
        return self.program.missing()

    def version(self) -> str:
        return first_line([self._path(), *self.asks_version])

    def start(self, place: Path, durability: Durability) -> Server:
        place.mkdir(parents=True, exist_ok=True)
        port = free_port()
        return launch([self._path(), *self.words(place, port, durability)], place, port)

    def _path(self) -> str:
        return find_program(self.program.command) or self.program.command


def _nats_words(place: Path, port: int, _: Durability) -> list[str]:
    config = place / "nats.conf"
    config.write_text(
        f"listen: 127.0.0.1:{port}\n"
        f'jetstream {{ store_dir: "{place}/data", max_file_store: 64G, max_memory_store: 1G }}\n'
        "max_payload: 1MB\nmax_pending: 256MB\n"
    )
    return ["-c", str(config)]


def _redis_words(place: Path, port: int, durability: Durability) -> list[str]:
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": f"{place}/data",
        "save": "",
        "appendonly": "yes",
        "appendfsync": _REDIS[durability],
        "auto-aof-rewrite-percentage": "0",  # else the file shrinks at some moment of the run
        "daemonize": "no",
    }
    return [word for key, value in options.items() for word in (f"--{key}", value)]


_REDIS: Final = {
    Durability.FSYNC: "always",
    Durability.INTERVAL: "everysec",
    Durability.NONE: "no",
}


def _mosquitto_words(place: Path, port: int, durability: Durability) -> list[str]:
    keeps = durability != Durability.NONE
    lines = [
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        "max_inflight_messages 0",
        "max_queued_messages 0",
        f"persistence {'true' if keeps else 'false'}",
        f"persistence_location {place}/data/",
        "autosave_interval 10",
        "log_type error",
        # It becomes another user when root starts it, who could not write here.
        f"user {place.owner()}",
    ]
    config = place / "mosquitto.conf"
    config.write_text("\n".join(lines) + "\n")
    return ["-c", str(config)]


NATS: Final = CommandSystem(
    title="NATS JetStream",
    client="nats",
    program=Program("nats-server", "nats-server"),
    asks_version=("--version",),
    # Debian's 2.9 has no sync_interval: it syncs by its own clock.
    durability={Durability.INTERVAL: "file store, synced every 2 minutes (fixed in 2.9)"},
    words=_nats_words,
)
REDIS: Final = CommandSystem(
    title="Redis Streams",
    client="redis",
    program=Program("redis-server", "redis-server"),
    asks_version=("--version",),
    durability={
        how: f"appendonly, appendfsync {word}, no rewrites" for how, word in _REDIS.items()
    },
    words=_redis_words,
)
MOSQUITTO: Final = CommandSystem(
    title="Mosquitto QoS 1",
    client="mqtt",
    program=Program("mosquitto", "mosquitto"),
    asks_version=("-h",),
    durability={
        Durability.INTERVAL: "persistence, the whole store written every 10 s",
        Durability.NONE: "persistence false",
    },
    words=_mosquitto_words,
)
