"""Asks a part over HTTP; one that does not answer is no error but an answer."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

_BODY_MAX: Final = 4 << 20


class Answer(NamedTuple):
    """Status 0 is none at all, and `problem` says why."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]
    problem: str = ""

    @property
    def is_ready(self) -> bool:
        """Well, and not about to say that it is not."""
        return self.status == 200 and self.body.get("ready", True) is True


def ask(url: str, timeout_s: float = 2.0) -> Answer:
    """The answer to a GET; never raises for what the other side does."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    except (http.client.InvalidURL, ValueError) as error:
        return Answer(0, {}, {}, str(error))
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, _document(response.read(_BODY_MAX)), headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(0, {}, {}, getattr(error, "strerror", None) or str(error) or "no answer")
    finally:
        connection.close()


async def ask_soon(url: str, timeout_s: float = 2.0) -> Answer:
    """The same without holding up the event loop."""
    return await asyncio.to_thread(ask, url, timeout_s)


def _document(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
