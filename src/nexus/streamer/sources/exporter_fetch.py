"""One page from one endpoint: in time, within the bound on its size, or a reason why not.

All pages in flight share one allowance of memory. A page that would go over it fails by itself
instead of waiting: an endpoint that misbehaves must not delay another.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpx

from nexus.errors import NexusError
from nexus.streamer.sources.exporter_target import Target

IN_FLIGHT_BYTES_MAX: Final = 64 << 20
HEADERS: Final = {
    "Accept": "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": "nexus-streamer",
}


class ScrapeFailed(NexusError):
    """Raised when an endpoint gave no page; the text is from a small, fixed set."""


@dataclass(frozen=True, slots=True)
class Page:
    """What an endpoint answered."""

    body: bytes
    openmetrics: bool


class Allowance:
    """Memory that all the pages in flight share."""

    def __init__(self, limit: int = IN_FLIGHT_BYTES_MAX) -> None:
        self._left = limit

    def take(self, size: int) -> None:
        if size > self._left:
            raise ScrapeFailed("too much in flight")
        self._left -= size

    def give_back(self, size: int) -> None:
        self._left += size


def new_client(endpoints: int) -> httpx.AsyncClient:
    """A client that keeps a connection to every endpoint and knows of no proxy."""
    return httpx.AsyncClient(
        headers=HEADERS,
        timeout=None,  # one clock for the whole scrape: see `fetch`
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=endpoints),
        trust_env=False,
    )


async def fetch(
    client: httpx.AsyncClient,
    target: Target,
    *,
    timeout_s: float,
    body_max: int,
    allowance: Allowance,
) -> Page:
    """The endpoint's page; ScrapeFailed if there is none."""
    try:
        async with asyncio.timeout(timeout_s), aclosing(await _asked(client, target)) as response:
            if response.status_code != httpx.codes.OK:
                raise ScrapeFailed(f"HTTP {response.status_code}")
            raw = await _bounded(response, body_max, allowance)
            kind = response.headers.get("content-type", "")
            encoding = response.headers.get("content-encoding", "identity").lower()
    except TimeoutError:
        raise ScrapeFailed("timeout") from None
    except (httpx.ConnectError, ssl.SSLError) as error:
        raise ScrapeFailed("no connection") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ScrapeFailed("broken answer") from error
    return Page(_decoded(raw, encoding, body_max), "openmetrics" in kind.lower())


async def _asked(client: httpx.AsyncClient, target: Target) -> httpx.Response:
    request = client.build_request("GET", target.url)
    try:
        return await client.send(request, stream=True)
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        # The server may have closed the idle connection just now: that is no failure of its own.
        return await client.send(request, stream=True)


async def _bounded(response: httpx.Response, body_max: int, allowance: Allowance) -> bytes:
    body, held = bytearray(), 0
    try:
        async for chunk in response.aiter_raw():
            if len(body) + len(chunk) > body_max:
                raise ScrapeFailed("page too large")
            allowance.take(len(chunk))
            held += len(chunk)
            body += chunk
        return bytes(body)
    finally:
        allowance.give_back(held)


def _decoded(raw: bytes, encoding: str, body_max: int) -> bytes:
    """The page itself; what was compressed is bounded by what it becomes."""
    if encoding in ("", "identity"):
        return raw
    if encoding not in ("gzip", "x-gzip"):
        raise ScrapeFailed("unknown content encoding")
    inflater = zlib.decompressobj(wbits=31)
    try:
        body = inflater.decompress(raw, body_max + 1)
    except zlib.error as error:
        raise ScrapeFailed("broken answer") from error
    if len(body) > body_max:
        raise ScrapeFailed("page too large")
    if not inflater.eof:
        raise ScrapeFailed("broken answer")
    return body
