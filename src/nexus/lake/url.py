"""A store's address: `delta:///path` for files, `s3://bucket/prefix` for object storage.

Secrets are never in an address: delta-rs finds them in the environment, on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from nexus.lake.errors import StoreError

EXPECTED: Final = "expected delta:///path or s3://bucket/prefix?endpoint=http://host:port&region=…"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_S3_OPTIONS: Final = {"endpoint": "aws_endpoint_url", "region": "aws_region"}
_WITHOUT_FILES: Final = ("etcd", "influxdb", "postgresql", "postgres")
# What makes a commit a put that fails when the name is taken: two writers cannot both win.
_S3_ALWAYS: Final = (("aws_conditional_put", "etag"),)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Where tables live, and what delta-rs must know to get there."""

    uri: str  # an absolute path, or s3://bucket/prefix
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    @property
    def storage_options(self) -> dict[str, str]:
        return dict(self.options)

    def table_uri(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def __str__(self) -> str:
        if self.is_local:
            return "delta://" + quote(self.uri)
        given = dict(self.options)
        query = [f"{name}={given[key]}" for name, key in _S3_OPTIONS.items() if key in given]
        return self.uri + ("?" + "&".join(query) if query else "")


def parse_store_url(text: str) -> StoreUrl:
    """The store that an address names; StoreError says what would be right."""
    address = text.strip()
    scheme, separator, rest = address.partition(":")
    if not separator:
        raise StoreError(f"store {text}: {EXPECTED}")
    if scheme == "delta":
        return _local(rest, text)
    if scheme in ("s3", "s3a"):
        return _object_store(rest, text)
    if scheme in _WITHOUT_FILES:
        raise StoreError(
            f"store {text}: this works on tables in files, and a store in {scheme} has none: it"
            f" keeps itself; {EXPECTED}"
        )
    raise StoreError(f"store {text}: unknown kind {scheme}:; {EXPECTED}")


def _local(rest: str, text: str) -> StoreUrl:
    path, _, query = rest.removeprefix("//").partition("?")
    if query or not path:
        raise StoreError(f"store {text}: expected a path and nothing else, as in delta:///var/lake")
    return StoreUrl(str(Path(unquote(path)).absolute()))


def _object_store(rest: str, text: str) -> StoreUrl:
    place, _, query = rest.removeprefix("//").partition("?")
    bucket, _, prefix = place.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise StoreError(f'store {text}: "{bucket}" is not a bucket\'s name; {EXPECTED}')
    prefix = prefix.strip("/")
    uri = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
    return StoreUrl(uri, _s3_options(dict(parse_qsl(query, keep_blank_values=True)), text))


def _s3_options(given: Mapping[str, str], text: str) -> tuple[tuple[str, str], ...]:
    unknown = sorted(given.keys() - _S3_OPTIONS.keys())
    if unknown:
        hint = " (credentials come from the environment: AWS_ACCESS_KEY_ID and so on)"
        raise StoreError(f"store {text}: unknown option {unknown[0]}{hint}; {EXPECTED}")
    options = [(_S3_OPTIONS[name], value) for name, value in given.items()]
    if given.get("endpoint", "").startswith("http://"):
        options.append(("aws_allow_http", "true"))
    return (*sorted(options), *_S3_ALWAYS)
