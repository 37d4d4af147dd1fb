"""etcd's address: `etcd://user@host:port,host:port/path?option=…`, for queues, stores and settings.

Parts that are left out come from the environment that operators of etcd know (ETCD_ENDPOINTS,
ETCD_PASSWORD). A password is never in an address: it is in ETCD_PASSWORD, or in the file that
`password_file` names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from nexus.etcd.config import EtcdConfig, Login, Tls, endpoints_of, wants_tls
from nexus.etcd.errors import EtcdError

EXPECTED: Final = "expected etcd://host:port,host:port/path"
DEFAULT_ENDPOINT: Final = "127.0.0.1:2379"
_TLS_OPTIONS: Final = ("ca", "cert", "key", "server_name")
_OWN_OPTIONS: Final = (*_TLS_OPTIONS, "tls", "password_file")
_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """Where etcd is, as whom to speak to it, the path, and what the path's owner is told."""

    endpoints: tuple[str, ...]
    path: str = ""  # with a slash at its beginning and none at its end, or empty
    user: str = ""
    access: tuple[tuple[str, str], ...] = ()  # of _OWN_OPTIONS
    options: tuple[tuple[str, str], ...] = ()  # all others, for whoever owns the path

    @property
    def authority(self) -> str:
        """The endpoints, and who asks, as in the address."""
        return (f"{quote(self.user)}@" if self.user else "") + ",".join(self.endpoints)

    def config(self, environ: Mapping[str, str] | None = None) -> EtcdConfig:
        """How to connect; the password is looked up now."""
        access = dict(self.access)
        return EtcdConfig(self.endpoints, tls=_tls(access), login=self._login(access, environ))

    def __str__(self) -> str:
        said = [*self.access, *self.options]
        query = "?" + urlencode(said, safe="/:,") if said else ""
        return f"etcd://{self.authority}{quote(self.path)}{query}"

    def _login(self, access: Mapping[str, str], environ: Mapping[str, str] | None) -> Login | None:
        if not self.user:
            return None
        file = access.get("password_file")
        if file is not None:
            try:
                return Login(self.user, Path(file).read_text().strip())
            except OSError as error:
                raise EtcdError(f"etcd: the password file {file}: {error.strerror}") from None
        password = (os.environ if environ is None else environ).get("ETCD_PASSWORD", "")
        if not password:
            raise EtcdError(
                f"etcd: user {self.user} needs a password: set ETCD_PASSWORD, or add"
                " ?password_file=/path to the address"
            )
        return Login(self.user, password)


def parse_etcd_address(text: str, environ: Mapping[str, str] | None = None) -> EtcdAddress:
    """What an address says, completed from the environment; EtcdError says what would be right."""
    scheme, separator, rest = text.strip().partition("://")
    if scheme != "etcd" or not separator:
        raise EtcdError(f"{text}: {EXPECTED}")
    place, _, query = rest.partition("?")
    authority, slash, path = place.partition("/")
    user, _, hosts = authority.rpartition("@")
    if ":" in user:
        raise EtcdError("etcd: a password in an address is seen by everyone: set ETCD_PASSWORD")
    given = parse_qsl(query, keep_blank_values=True)
    known = (os.environ if environ is None else environ).get("ETCD_ENDPOINTS", "")
    named = hosts or known or DEFAULT_ENDPOINT
    if wants_tls(named):
        given.append(("tls", "true"))
    return EtcdAddress(
        tuple(_checked(endpoint, text) for endpoint in endpoints_of(named)),
        slash + unquote(path.rstrip("/")) if path.rstrip("/") else "",
        unquote(user),
        tuple(sorted({pair for pair in given if pair[0] in _OWN_OPTIONS})),
        tuple(sorted(pair for pair in given if pair[0] not in _OWN_OPTIONS)),
    )


def _checked(endpoint: str, text: str) -> str:
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or not 0 < int(found[2]) <= 65535:
        raise EtcdError(f'{text}: found "{endpoint}", {EXPECTED}')
    return endpoint


def _tls(access: Mapping[str, str]) -> Tls | None:
    files = {name: Path(access[name]) for name in ("ca", "cert", "key") if name in access}
    wanted = access.get("tls", "").lower() in ("true", "1", "yes")
    if not (files or wanted or "server_name" in access):
        return None
    return Tls(server_name=access.get("server_name", ""), **files)
