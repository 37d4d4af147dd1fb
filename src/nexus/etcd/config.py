"""How to reach etcd: frozen, picklable (for Spark's executors), with no connection in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nexus.etcd.errors import EtcdError

DEFAULT_PORT = 2379


@dataclass(frozen=True)
class Tls:
    """Files in PEM form. Without `ca` the system's authorities are trusted.

    `cert` and `key` together make it mutual. `server_name` is what the server's certificate
    must say when the address does not.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise EtcdError(
                "etcd TLS: a client certificate needs its key, and a key its certificate"
            )


@dataclass(frozen=True)
class Login:
    """A user of etcd; the password is not shown when this is printed."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class EtcdConfig:
    """Endpoints (`host:port`), who asks, and how long anything may take."""

    endpoints: tuple[str, ...]
    tls: Tls | None = None
    login: Login | None = None
    timeout_s: float = 10.0  # a whole call, retries included
    attempt_s: float = 3.0  # one attempt of a call that may be repeated
    connect_s: float = 2.0
    # Pings find dead peers. etcd calls more than one in 5 s an attack and hangs up.
    ping_every_s: float = 6.0
    ping_timeout_s: float = 3.0
    receive_bytes_max: int = 64 << 20

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise EtcdError("etcd: no endpoint is given")
        if self.ping_every_s < 5:
            raise EtcdError("etcd: ping_every_s below 5 makes the server hang up")


def endpoints_of(text: str) -> tuple[str, ...]:
    """Endpoints from a comma-separated list, with or without `http://` and port."""
    words = (word.strip() for word in text.split(","))
    return tuple(_endpoint(word) for word in words if word)


def wants_tls(text: str) -> bool:
    """Whether such a list asks for TLS; a list that half asks is refused."""
    secure = {word.strip().startswith("https://") for word in text.split(",") if word.strip()}
    if len(secure) > 1:
        raise EtcdError(f"etcd endpoints {text}: either all of them are https, or none")
    return secure == {True}


def _endpoint(word: str) -> str:
    bare = word.removeprefix("http://").removeprefix("https://").rstrip("/")
    if not bare or "/" in bare:
        raise EtcdError(f"etcd endpoint {word!r}: expected host:port")
    has_port = bare.rpartition("]")[2].count(":") == 1
    return bare if has_port else f"{bare}:{DEFAULT_PORT}"
