"""Talks to InfluxDB over HTTP: lines in, statements with bound values in, columns out.

A write is tried again, with jitter, while the server is away or overloaded; one that it took in
part only is an error that says so, so that no row is lost without a word. Answers come as CSV,
which becomes Arrow without Python looking at a row. In CSV the server leaves errors of a statement
out, so a second statement follows each: only if it was answered, the first one was, to its end.
"""

from __future__ import annotations

import json
import random
import re
import ssl
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import pyarrow as pa
import pyarrow.csv as pcsv

from nexus.lake.errors import StoreError, StoreOut
from nexus.store.influx.url import InfluxUrl

CONNECT_S: Final = 5.0
WRITE_S: Final = 30.0
TRIES: Final = 6
_FIRST_S, _LONGEST_S = 0.1, 5.0  # between two tries
_GZIP_LEVEL: Final = 1
_GZIP_LEAST: Final = 1024  # bytes
_CHUNK: Final = "10000"  # rows that the server sends at once
_OVERLOADED: Final = (408, 429, 500, 502, 503, 504)
_LIMIT: Final = re.compile(r" LIMIT \d+$")
_HEAD: Final = b"\n\nname,tags,"  # of the second answer


class TooSlow(StoreOut):
    """Raised when a statement was not answered in the time that it had."""


class Influx:
    """One database; safe for any number of threads."""

    def __init__(
        self,
        place: InfluxUrl,
        *,
        timeout_s: float = WRITE_S,
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.place = place
        self._tries = tries
        self._sleep = sleep
        self._jitter = jitter
        self._client = httpx.Client(
            base_url=place.base,
            auth=place.credentials(),
            timeout=httpx.Timeout(timeout_s, connect=CONNECT_S),
            verify=_trust(place),
            trust_env=False,
            transport=transport,
        )

    def close(self) -> None:
        """Let go of its connections; safe to call twice."""
        self._client.close()

    def write(self, policy: str, lines: bytes | memoryview, precision: str = "u") -> None:
        """Store lines whose times are in micro- or nanoseconds; StoreOut if it takes none now."""
        body, headers = bytes(lines), {}
        if self.place.gzip and len(body) >= _GZIP_LEAST:
            body, headers = _gzipped(body), {"content-encoding": "gzip"}
        params = {"db": self.place.database, "rp": policy, "precision": precision}
        for tried in range(1, self._tries + 1):
            try:
                answer = self._sent("/write", params=params, content=body, headers=headers)
                if answer.status_code not in _OVERLOADED:
                    break
                problem = StoreOut(f"store {self.place}: {_reason(answer)}")
            except StoreOut as error:
                problem = error
            if tried == self._tries:
                raise problem
            self._sleep(self._jitter() * min(_LONGEST_S, _FIRST_S * 2**tried))
        if answer.status_code != httpx.codes.NO_CONTENT:
            raise self._refused(answer)

    def tell(self, statement: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a short answer, those of all its series one after the other."""
        answer = self._asked(statement, params, {})
        said = answer.json()
        rows: list[dict[str, Any]] = []
        for result in said.get("results", []):
            if "error" in result:
                raise StoreError(f"store {self.place}: {result['error']}")
            for series in result.get("series", []):
                named = {"measurement": series.get("name", ""), **series.get("tags", {})}
                rows += [
                    {**named, **dict(zip(series["columns"], values, strict=True))}
                    for values in series.get("values", [])
                ]
        return rows

    def ask(self, statement: str, params: Mapping[str, Any] | None, schema: pa.Schema) -> pa.Table:
        """The rows of a SELECT, in the columns of a schema; `tags` is what it was grouped by."""
        check = f"SHOW RETENTION POLICIES ON {quoted(self.place.database)}"
        headers = {"accept": "application/csv"}
        said = self._asked(f"{statement}; {check}", params, headers).content
        if said.startswith(_HEAD[2:] + b"name,duration"):
            return schema.empty_table()
        end = said.rfind(_HEAD)
        if end < 0:  # the statement was not answered to its end: the other form says why
            self.tell(f"{_LIMIT.sub('', statement)} LIMIT 1", params)
            raise TooSlow(f"store {self.place}: an answer broke off")
        return _table(said[: end + 1], schema)

    def _asked(
        self, statement: str, params: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        said = {
            "q": statement,
            "db": self.place.database,
            "epoch": "u",
            "chunked": "true" if headers else "false",
            "chunk_size": _CHUNK,
        }
        if params:
            said["params"] = json.dumps(params)
        answer = self._sent("/query", data=said, headers=headers)
        if answer.status_code in _OVERLOADED:
            raise StoreOut(f"store {self.place}: {_reason(answer)}")
        if answer.status_code != httpx.codes.OK:
            raise self._refused(answer)
        return answer

    def _sent(self, path: str, **how: Any) -> httpx.Response:
        try:
            return self._client.post(path, **how)
        except httpx.TimeoutException as error:
            raise TooSlow(f"store {self.place}: no answer in time") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            why = str(error) or type(error).__name__
            raise StoreOut(f"store {self.place}: {why}") from error

    def _refused(self, answer: httpx.Response) -> StoreError:
        why = _reason(answer)
        if answer.status_code in (401, 403):
            why += " (INFLUX_USERNAME and INFLUX_PASSWORD, or passfile=…, say who asks)"
        return StoreError(f"store {self.place}: {why}")


def quoted(name: str) -> str:
    """A name in a statement."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _trust(place: InfluxUrl) -> ssl.SSLContext | bool:
    if not place.ssl:
        return False
    try:
        return ssl.create_default_context(cafile=place.ca or None)
    except OSError as error:
        raise StoreError(f"store {place}: {place.ca} cannot be used: {error}") from error


def _gzipped(body: bytes) -> bytes:
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=31)
    return packer.compress(body) + packer.flush()


def _reason(answer: httpx.Response) -> str:
    try:
        said = str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        said = answer.text.strip().removeprefix("error\n").partition("\n")[0]
    return f"{said[:500]} (HTTP {answer.status_code})"


def _table(data: bytes, schema: pa.Schema) -> pa.Table:
    return pcsv.read_csv(
        pa.BufferReader(data),
        parse_options=pcsv.ParseOptions(newlines_in_values=True),
        convert_options=pcsv.ConvertOptions(
            column_types=schema,
            include_columns=schema.names,
            strings_can_be_null=False,
            null_values=[""],
        ),
    )
