"""A store's address in InfluxDB: `influxdb://host:port/database?ssl=true&ca=…&gzip=…`.

Never with a user or a password in it: an address is in process titles and in logs. They come from
a file (`passfile=…`, one line `user:password`) or from INFLUX_USERNAME and INFLUX_PASSWORD.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from nexus.lake.errors import StoreError

SCHEME: Final = "influxdb"
PORT: Final = 8086
EXPECTED: Final = "expected influxdb://host:port/database?ssl=true&ca=/path&passfile=/path"
_OPTIONS: Final = ("ssl", "ca", "passfile", "gzip")
_YES_OR_NO: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
# What InfluxDB takes for a name, less what would have to be escaped everywhere.
_DATABASE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOOPBACK: Final = ("localhost", "::1")


@dataclass(frozen=True, slots=True)
class InfluxUrl:
    """Where the database is and how it is reached; never a password."""

    host: str
    port: int
    database: str
    ssl: bool = False
    ca: str = ""  # a file of certificates to trust, instead of the system's
    passfile: str = ""
    gzip: bool = True

    @property
    def name(self) -> str:
        """What makes it this store: not how it is reached."""
        return f"{SCHEME}://{self._place}/{self.database}"

    @property
    def base(self) -> str:
        """The address of its HTTP API."""
        return f"{'https' if self.ssl else 'http'}://{self._place}"

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def credentials(self, environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
        """The user and the password; None where none are set."""
        if self.passfile:
            return self._from_file()
        said = os.environ if environ is None else environ
        user = said.get("INFLUX_USERNAME", "")
        return (user, said.get("INFLUX_PASSWORD", "")) if user else None

    def _from_file(self) -> tuple[str, str]:
        try:
            line = Path(self.passfile).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"store {self}: {self.passfile} cannot be read: {error}") from error
        user, separator, password = line.partition(":")
        if not separator or "\n" in line:
            raise StoreError(f"store {self}: {self.passfile} has no line user:password")
        return user, password

    def __str__(self) -> str:
        return self.name


def parse_influx_url(text: str) -> InfluxUrl:
    """The store that an address names; StoreError says what would be right."""
    parts = urlsplit(text.strip())
    shown = f"{SCHEME}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.scheme != SCHEME:
        raise StoreError(f"store {shown}: {EXPECTED}")
    if "@" in parts.netloc:
        raise StoreError(
            f"store {shown}: user and password do not belong into an address, which others can see;"
            " put them into a file (passfile=…) or into INFLUX_USERNAME and INFLUX_PASSWORD"
        )
    database = unquote(parts.path.strip("/"))
    if not _DATABASE.fullmatch(database):
        raise StoreError(f"store {shown}: names no database; {EXPECTED}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise StoreError(f"store {shown}: {EXPECTED}") from None
    if not host:
        raise StoreError(f"store {shown}: {EXPECTED}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise StoreError(f"store {shown}: unknown option {unknown[0]}; {EXPECTED}")
    return InfluxUrl(
        host,
        port or PORT,
        database,
        ssl=_is_set(options, "ssl", False, shown),
        ca=options.get("ca", ""),
        passfile=options.get("passfile", ""),
        gzip=_is_set(options, "gzip", not _is_near(host), shown),
    )


def _is_set(options: Mapping[str, str], name: str, otherwise: bool, shown: str) -> bool:
    if name not in options:
        return otherwise
    if options[name] not in _YES_OR_NO:
        raise StoreError(f"store {shown}: {name} is true or false, not {options[name]}")
    return _YES_OR_NO[options[name]]


def _is_near(host: str) -> bool:
    """On one machine the bytes that gzip saves cost more than they would."""
    return host in _LOOPBACK or host.startswith("127.")
