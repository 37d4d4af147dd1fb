"""Where a client finds its queue: a flag, the environment, or the broker of this machine."""

import os
from collections.abc import Mapping
from typing import Final

from nexus.settings.errors import SettingsError
from nexus.settings.kinds import split_host_port

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_VARIABLES: Final = ("NEXUS_BOOTSTRAP", "MSG_QUEUE_URL")
_SCHEME: Final = "kafka://"


def bootstrap_servers(flag: str | None = None, *, environ: Mapping[str, str] | None = None) -> str:
    """`host:port,host:port` from --bootstrap, NEXUS_BOOTSTRAP, MSG_QUEUE_URL or the default.

    Each may also be a queue's address, `kafka://host:port,host:port/topic`.
    """
    variables = os.environ if environ is None else environ
    if flag is not None:
        return _servers(flag, "flag --bootstrap")
    for variable in _VARIABLES:
        if variables.get(variable):
            return _servers(variables[variable], f"environment {variable}")
    return DEFAULT_BOOTSTRAP


def _servers(text: str, where: str) -> str:
    address = text.strip()
    if "://" in address and not address.startswith(_SCHEME):
        raise SettingsError(
            f'{where}: found "{address}", expected kafka://host:port or host:port'
            " (this command speaks to Kafka brokers only)"
        )
    hosts = address.removeprefix(_SCHEME).split("/", 1)[0]
    servers = [server.strip() for server in hosts.split(",") if server.strip()]
    try:
        return ",".join("{}:{}".format(*_check(server)) for server in servers or [""])
    except ValueError as error:
        raise SettingsError(f'{where}: found "{address}", expected {error}') from None


def _check(server: str) -> tuple[str, int]:
    host, port = split_host_port(server)
    return (f"[{host}]" if ":" in host else host), port
