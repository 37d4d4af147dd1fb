"""Writes the API's description to a file, for `make openapi`."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

from nexus.gateway.app import api
from nexus.gateway.description import describe


def description_text() -> bytes:
    """The OpenAPI document, in a form that differs only where the API does."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
    return orjson.dumps(describe(api()), option=options)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(description_text())
