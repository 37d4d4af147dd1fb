"""RabbitMQ with a quorum queue, as the user who measures: no service, no files of the system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from peers.servers.process import Durability, Program, Server, free_port, launch

# Not the command of the PATH: that one becomes the user rabbitmq, or refuses.
_PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@dataclass(frozen=True, slots=True)
class RabbitMQ:
    """One node. Its log of all quorum queues is synced before an acknowledgement, or never."""

    title: str = "RabbitMQ quorum queue"
    client: str = "amqp"
    durability: Mapping[Durability, str] = field(
        default_factory=lambda: {
            Durability.FSYNC: "its default (wal_sync_method datasync), publisher confirms",
            Durability.NONE: "ra wal_sync_method none, publisher confirms",
        }
    )

    def missing(self) -> str | None:
        return Program(str(_PROGRAM), "rabbitmq-server").missing()

    def version(self) -> str:
        # Its own command would leave a daemon behind; the folder says it too.
        return _PROGRAM.resolve().parents[1].name.replace("rabbitmq_server-", "RabbitMQ ")

    def start(self, place: Path, durability: Durability) -> Server:
        place.mkdir(parents=True, exist_ok=True)
        port, names_port, nodes_port = free_port(), free_port(), free_port()
        method = "none" if durability == Durability.NONE else "datasync"
        (place / "advanced.config").write_text(f"[{{ra, [{{wal_sync_method, {method}}}]}}].\n")
        (place / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{port}\n"
            "vm_memory_high_watermark.relative = 0.7\n"
            "disk_free_limit.absolute = 1GB\n"
        )
        (place / "plugins").write_text("[].\n")
        environment = {
            "HOME": str(place),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(place / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "plugins"),
            "RABBITMQ_MNESIA_BASE": f"{place}/data",
            "RABBITMQ_LOG_BASE": str(place),
            "RABBITMQ_DIST_PORT": str(nodes_port),
            # The server itself is then the process that we start, not a shell around it.
            "RABBITMQ_ALLOW_INPUT": "true",
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
            "ERL_EPMD_PORT": str(names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        # Erlang's register of names would start as a daemon, out of our sight.
        script = f"epmd -port {names_port} & exec {_PROGRAM}"
        return launch(["sh", "-c", script], place, port, environment)
