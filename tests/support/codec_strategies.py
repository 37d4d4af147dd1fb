"""Hypothesis strategies for Kafka messages, derived from the codec's own descriptions."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from nexus.wire.errors import ErrorCode
from nexus.wire.fields import OWN_TAGS, Field, Kind, describe, is_required

_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
# Lengths on both sides of the places where a varint grows.
_TEXT = st.text(max_size=12) | st.sampled_from(["", "é" * 63, "x" * 127, "y" * 300])
_BYTES = st.binary(max_size=20) | st.sampled_from([b"", bytes(126), bytes(127), bytes(20_000)])
# The oracles turn times into dates, and codes into members of an enumeration.
_TIMES = st.integers(-1, 2**41)
_CODES = st.sampled_from([int(code) for code in ErrorCode])


@cache
def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Make messages of which every field that the version has may take any value."""
    fields = [field for field in describe(cls).fields if version in field.versions]
    # Nobody else knows the fields that are ours alone.
    fields = [field for field in fields if field.tag is None or field.tag < OWN_TAGS]
    return st.builds(cls, **{field.name: _values(field, version) for field in fields})


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind is Kind.ARRAY:
        assert field.element is not None
        values: st.SearchStrategy[Any] = st.lists(_elements(field.element, version), max_size=3)
    elif field.kind is Kind.STRUCT:
        assert isinstance(field.element, type)
        values = messages(field.element, version)
        return values if is_required(field) else st.none() | values
    elif field.name.endswith("error_code"):
        values = _CODES
    elif field.kind is Kind.INT64 and field.name.endswith(("timestamp", "time_ms")):
        values = _TIMES
    else:
        values = _elements(field.kind, version)
    return values | st.none() if version in field.nullable else values


def _elements(kind: Kind | type, version: int) -> st.SearchStrategy[Any]:
    if not isinstance(kind, Kind):
        return messages(kind, version)
    if kind in _BITS:
        bound = 1 << (_BITS[kind] - 1)
        return st.integers(-bound, bound - 1)
    simple: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.BOOL: st.booleans(),
        Kind.UUID: st.uuids(),
        Kind.STRING: _TEXT,
        Kind.BYTES: _BYTES,
        Kind.RECORDS: _BYTES,
    }
    return simple[kind]
