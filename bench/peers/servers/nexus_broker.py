"""Ours: one broker on its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nexus.bench.local_broker import broker_environment
from peers.servers.process import Durability, Server, first_line, free_port, launch

_WORDS = {Durability.FSYNC: "commit", Durability.INTERVAL: "interval", Durability.NONE: "never"}


@dataclass(frozen=True, slots=True)
class NexusBroker:
    """The broker of this checkout."""

    title: str = "Nexus"
    client: str = "kafka"
    durability: Mapping[Durability, str] = field(
        default_factory=lambda: {how: f"--fsync {word}, acks=all" for how, word in _WORDS.items()}
    )

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return first_line([sys.executable, "-m", "nexus", "--version"])

    def start(self, place: Path, durability: Durability) -> Server:
        port = free_port()
        words = ["--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]
        words += ["--data-dir", f"{place}/data", "--fsync", _WORDS[durability]]
        return launch(
            [sys.executable, "-m", "nexus", "broker", *words], place, port, broker_environment()
        )
