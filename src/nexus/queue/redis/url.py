"""A list or a stream in Redis: `redis://user@host:port/db?list=KEY` or `…?stream=KEY&group=G`.

`rediss://` speaks TLS, `unix:///path/to/socket?db=0&list=KEY` needs no network. A password is never
in an address: it is in REDIS_PASSWORD (or REDISCLI_AUTH), or in the file of `password_file`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, quote, unquote

from nexus.queue.errors import QueueError

EXPECTED: Final = "expected redis://host:port/db?list=KEY or redis://host:port/db?stream=KEY"
DEFAULT_GROUP: Final = "nexus-import"
_SCHEMES: Final = ("redis", "rediss", "unix")
_PLACES: Final = ("list", "stream")
_OF_STREAMS: Final = ("group", "form")
_ACCESS: Final = ("db", "password_file", "ca", "cert", "key")
_KNOWN: Final = (*_PLACES, *_OF_STREAMS, *_ACCESS, "field", "by", "end")
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+)?(?::(\d{1,5}))?")
_PASSWORDS: Final = ("REDIS_PASSWORD", "REDISCLI_AUTH")

Kind = Literal["list", "stream"]
Form = Literal["payload", "fields"]  # of a stream's entries that are written
End = Literal["left", "right"]  # where the oldest of a list is


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """Where Redis is, the key there, and how its entries are read and written."""

    server: Mapping[str, Any]  # for the client; without a password
    place: str  # the address without options, as it is shown
    kind: Kind
    name: str  # the key's
    group: str = DEFAULT_GROUP
    payload: str = ""  # the field of an entry that holds it
    by: str = ""  # the field whose value a message is keyed by
    end: End = "left"
    form: Form = "payload"
    access: Mapping[str, str] = field(default_factory=dict)

    def password(self, environ: Mapping[str, str] | None = None) -> str | None:
        """Looked up now; None where nobody gave one."""
        file = self.access.get("password_file")
        if file is not None:
            try:
                return Path(file).read_text().strip()
            except OSError as error:
                raise QueueError(f"redis: the password file {file}: {error.strerror}") from None
        given = os.environ if environ is None else environ
        return next((given[name] for name in _PASSWORDS if given.get(name)), None)

    def __str__(self) -> str:
        return f"{self.place}?{self.kind}={quote(self.name)}"


def parse_redis_url(text: str) -> RedisUrl:
    """The list or stream that an address names; QueueError says what would be right."""
    scheme, separator, rest = text.strip().partition("://")
    where, _, query = rest.partition("?")
    if not separator or scheme not in _SCHEMES:
        raise QueueError(f"redis {text}: {EXPECTED}")
    said = _options(query, text)
    server, place = _unix(where, said, text) if scheme == "unix" else _tcp(scheme, where, text)
    kinds: list[Kind] = [kind for kind in ("list", "stream") if said.get(kind)]
    if len(kinds) != 1:
        raise QueueError(f"redis {place}: names no key, or two; {EXPECTED}")
    (kind,) = kinds
    for name in _OF_STREAMS:
        if kind == "list" and name in said:
            raise QueueError(f"redis {place}: option {name} is for streams")
    return RedisUrl(
        server,
        place,
        kind,
        said[kind],
        group=said.get("group") or DEFAULT_GROUP,
        payload=said.get("field", ""),
        by=said.get("by", ""),
        end=_one_of(said, "end", ("left", "right"), place),
        form=_one_of(said, "form", ("payload", "fields"), place),
        access={name: said[name] for name in _ACCESS if name in said},
    )


def _options(query: str, text: str) -> dict[str, str]:
    said = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(said.keys() - set(_KNOWN))
    if unknown:
        raise QueueError(
            f"redis {text}: unknown option {unknown[0]}; known are {', '.join(_KNOWN)}"
        )
    return said


def _tcp(scheme: str, where: str, text: str) -> tuple[dict[str, Any], str]:
    authority, _, db = where.partition("/")
    user, _, host = authority.rpartition("@")
    if ":" in user:
        raise QueueError(
            "redis: a password in an address is seen by everyone: set REDIS_PASSWORD, or add"
            " &password_file=/path to the address"
        )
    found = _HOST.fullmatch(host)
    if found is None or int(found[2] or 1) > 65535:
        raise QueueError(f'redis {text}: found "{host}", {EXPECTED}')
    name, port = (found[1] or "127.0.0.1"), int(found[2] or 6379)
    server = {
        "host": name.strip("[]"),
        "port": port,
        "db": _db(db, text),
        "username": unquote(user) or None,
        "ssl": scheme == "rediss",
    }
    return server, f"{scheme}://{name}:{port}/{server['db']}"


def _unix(path: str, said: Mapping[str, str], text: str) -> tuple[dict[str, Any], str]:
    if not path.startswith("/"):
        raise QueueError(f'redis {text}: found "{path}", expected unix:///path/to/socket?list=KEY')
    server = {"unix_socket_path": unquote(path), "db": _db(said.get("db", ""), text)}
    return server, f"unix://{path}"


def _db(word: str, text: str) -> int:
    if word and not (word.isascii() and word.isdigit()):
        raise QueueError(f'redis {text}: found "{word}", expected a database\'s number')
    return int(word or 0)


def _one_of(said: Mapping[str, str], name: str, words: tuple[str, str], place: str) -> Any:
    word = said.get(name, words[0])
    if word not in words:
        raise QueueError(
            f'redis {place}: option {name}: found "{word}", expected {" or ".join(words)}'
        )
    return word
