"""Two other implementations of Kafka's messages, as references for ours.

Each reads bytes and returns what it understood as plain values, and the bytes that it would write
for that. Never give them bytes that may be malformed: kio can abort the whole process.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import re
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

from kio.serial import entity_reader, entity_writer

from nexus.wire.fields import OWN_TAGS, ZERO_UUID, Field, Kind, describe

with warnings.catch_warnings():
    # It reads its definitions in a way that Python 3.11 wants to see changed.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer
    from kafka.protocol.schemas.fields.codecs import BitField

Oracle = Callable[[type, int, bytes], tuple[dict[str, Any], bytes]]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
# Where kio has no value, the wire has one of these: no topic's id, or a time that is not set.
_KIO_NONE = {Kind.UUID: ZERO_UUID, Kind.INT64: -1}
_KIO_VALUES: dict[type, Callable[[Any], Any]] = {
    tuple: list,
    datetime.timedelta: lambda value: value // _MILLISECOND,
    datetime.datetime: lambda value: (value - _EPOCH) // _MILLISECOND,
}


def plain(message: Any, version: int) -> dict[str, Any]:
    """Reduce one of our messages to the values that the version carries."""
    values = {}
    for field in _fields(type(message), version):
        value = getattr(message, field.name)
        if field.kind is Kind.STRUCT and not (value is None and version in field.nullable):
            assert isinstance(field.element, type)
            value = plain(field.element() if value is None else value, version)
        elif field.kind is Kind.ARRAY and isinstance(field.element, type) and value is not None:
            value = [plain(item, version) for item in value]
        values[field.name] = value
    return values


def ask_kio(cls: type, version: int, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Let kio read a message and write it again."""
    entity_type = _kio_class(cls, version)
    entity, size = entity_reader(entity_type)(data, 0)
    assert size == len(data)
    out = io.BytesIO()
    entity_writer(entity_type)(out, entity)
    return _plain_kio(entity, cls, version), out.getvalue()


def ask_kafka_python(cls: type, version: int, data: bytes) -> tuple[dict[str, Any], bytes]:
    """Let kafka-python read a message and write it again."""
    theirs = _kafka_python_class(cls)
    message = theirs.decode(data, version=version, header=False)
    # What it decoded lacks what it needs to encode, so its values go into a fresh one.
    names = _their_names(message, version)
    again = theirs(version=version, **{name: getattr(message, name) for name in names})
    return _plain_kafka_python(message, cls, version), bytes(again.encode(header=False))


def _fields(cls: type, version: int) -> list[Field]:
    fields = [field for field in describe(cls).fields if version in field.versions]
    return [field for field in fields if field.tag is None or field.tag < OWN_TAGS]


def _kio_class(cls: type, version: int) -> Any:
    stem, kind = re.fullmatch(r"(\w+?)(Request|Response|Header|)", cls.__name__).groups()  # type: ignore[union-attr]
    if kind == "Header":
        stem += kind
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", stem).lower()
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{kind.lower() or 'data'}")
    return getattr(module, cls.__name__)


def _plain_kio(entity: Any, cls: type, version: int) -> dict[str, Any]:
    """Match kio's fields with ours by position: it drops the units from names."""
    theirs = [field.name for field in dataclasses.fields(entity)]
    ours = _fields(cls, version)
    assert [name.removesuffix("_ms") for name in theirs] == [
        field.name.removesuffix("_ms") for field in ours
    ]
    return {
        field.name: _kio_value(getattr(entity, name), field, version)
        for field, name in zip(ours, theirs, strict=True)
    }


def _kio_value(value: Any, field: Field, version: int) -> Any:
    if isinstance(field.element, type) and value is not None:
        if field.kind is Kind.STRUCT:
            return _plain_kio(value, field.element, version)
        return [_plain_kio(item, field.element, version) for item in value]
    if value is None:
        return _KIO_NONE.get(field.kind)
    convert = _KIO_VALUES.get(type(value))
    if convert is None and isinstance(value, Enum):
        return value.value
    return value if convert is None else convert(value)


def _kafka_python_class(cls: type) -> Any:
    for package in (producer, consumer, metadata, admin):
        if hasattr(package, cls.__name__):
            return getattr(package, cls.__name__)
    raise LookupError(cls.__name__)


def _plain_kafka_python(message: Any, cls: type, version: int) -> dict[str, Any]:
    theirs = _their_names(message, version)
    ours = _fields(cls, version)
    assert [_short(name) for name in theirs] == [_short(field.name) for field in ours]
    return {
        field.name: _kafka_python_value(getattr(message, name), field, version)
        for field, name in zip(ours, theirs, strict=True)
    }


def _their_names(message: Any, version: int) -> list[str]:
    return [name for name, field in message.fields.items() if field.for_version_q(version)]


def _short(name: str) -> str:
    """Undo what kafka-python does to two names: it cuts off whose operations are meant."""
    return "authorized_operations" if name.endswith("_authorized_operations") else name


def _kafka_python_value(value: Any, field: Field, version: int) -> Any:
    if field.kind is Kind.STRUCT and value is None:
        assert isinstance(field.element, type)
        return plain(field.element(), version)
    if isinstance(field.element, type) and value is not None:
        if field.kind is Kind.STRUCT:
            return _plain_kafka_python(value, field.element, version)
        return [_plain_kafka_python(item, field.element, version) for item in value]
    if field.name.endswith("authorized_operations") and field.kind is Kind.INT32:
        # It turns these bits into a set, and the value that stands for "not asked" into None.
        bits = BitField.to_32_bit_field({31} if value is None else value)
        return bits - (1 << 32) if bits >= 1 << 31 else bits
    if value is None and field.kind is Kind.UUID:
        return ZERO_UUID
    return value


def kafka_python_request(cls: type, version: int, *, correlation_id: int, client_id: str) -> bytes:
    """Let kafka-python write the frame of a request that has only defaults."""
    request = _kafka_python_class(cls)(version=version)
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(header=True, framed=True))


def kafka_python_reads(cls: type, version: int, frame: bytes) -> int:
    """Let kafka-python read the frame of a response, and return its correlation id."""
    response = _kafka_python_class(cls).decode(frame, version=version, header=True, framed=True)
    correlation_id: int = response.header.correlation_id
    return correlation_id
